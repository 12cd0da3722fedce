(* Instances of the theorems about what no verifier exceeds, and about what reaches it.

   Three tokens and two: pairs and i.i.d. drafts of one position, with zeros, a tie between the
   draft's likeliest tokens and, after the first token, disjoint supports. Where a bound is said, so
   are the numbers on both of its sides, and they differ wherever they can. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import acceptance one_position laws emission greedy_block descent.
From Draftproof Require Import rejection greedy_draft spechub target_first block selection mixed.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Notation fractions := (field_numbers rat_realFieldType).
Ltac checked := vm_cast_no_check (erefl true).
Ltac computed := lazymatch goal with |- is_true _ => checked | _ => apply/eqP; checked end.

Lemma possible_listed (A : eqType) (m : law fractions A) a :
  has (fun o => (o.1 == a) && ((o.2 : rat) != 0)) m -> possible m a.
Proof.
elim: m => [|[b w] m IH] //= /orP[/andP[/eqP-> w0]|/IH[v v_in v0]].
  by exists w => //; left.
by exists v => //; right.
Qed.

(* --------------------------------------------------------------------------------- three tokens *)
Notation three := [finType of 'I_3].
Definition token_a : 'I_3 := @Ordinal 3 0 isT.
Definition token_b : 'I_3 := @Ordinal 3 1 isT.
Definition token_c : 'I_3 := @Ordinal 3 2 isT.
Definition abc : seq 'I_3 := [:: token_a; token_b; token_c].
Lemma abc_complete : perm_eq abc (enum three).
Proof. by apply: uniq_perm; rewrite ?enum_uniq // => -[[|[|[|x]]] lt] //; rewrite mem_enum. Qed.
Definition row_abc (a b c : rat) (x : 'I_3) : rat := nth 0 [:: a; b; c] x.
Lemma sum_abc (f : 'I_3 -> rat) : \sum_x f x = f token_a + f token_b + f token_c.
Proof.
rewrite !big_ord_recl big_ord0 addr0 addrA.
by congr (f _ + f _ + f _); apply: val_inj.
Qed.
Lemma is_row_abc (a b c : rat) :
  [&& 0 <= a, 0 <= b, 0 <= c & a + b + c == 1] -> is_row (row_abc a b c).
Proof.
by case/and4P=> a0 b0 c0 /eqP total; split; [case=> -[|[|[|x]]] lt|rewrite sum_abc].
Qed.

(* Much is refused: the hub, the first of two equals, is not the target's, and what is mostly the
   target's is never drafted. *)
Definition p_far := row_abc 0 (1 / 3%:Q) (2%:Q / 3%:Q).
Definition q_far := row_abc (1 / 2%:Q) (1 / 2%:Q) 0.
Lemma p_far_row : is_row p_far. Proof. exact: is_row_abc. Qed.
Lemma q_far_row : is_row q_far. Proof. exact: is_row_abc. Qed.
(* Nothing need be refused: the hub is not the target's, and the rest of a pair is as the target. *)
Definition p_near := row_abc (1 / 2%:Q) (1 / 2%:Q) 0.
Definition q_near := row_abc (1 / 4%:Q) (1 / 4%:Q) (1 / 2%:Q).
Lemma p_near_row : is_row p_near. Proof. exact: is_row_abc. Qed.
Lemma q_near_row : is_row q_near. Proof. exact: is_row_abc. Qed.
(* After the first token the target and the draft are disjoint. *)
Definition begins_with (r : 'I_3 -> rat) (next : 'I_3) (z : seq 'I_3) : 'I_3 -> rat :=
  if z is [::] then r else fun x => (x == next)%:R.
Lemma begins_with_model r next : is_row r -> is_model (begins_with r next).
Proof.
move=> r_row [|a z] //=; split=> [x|]; first exact: ler0n.
by rewrite sum_abc; case: next => -[|[|[|x]]] lt //; computed.
Qed.
Notation P_far := (begins_with p_far token_a).
Notation Q_far := (begins_with q_far token_c).
Notation P_near := (begins_with p_near token_a).
Notation Q_near := (begins_with q_near token_c).
Definition P_far_model : is_model P_far := begins_with_model token_a p_far_row.
Definition Q_far_model : is_model Q_far := begins_with_model token_c q_far_row.
Definition P_near_model : is_model P_near := begins_with_model token_a p_near_row.

Notation pairs := (@draw_hub fractions three abc).
Notation pair_rule := (@spechub.spechub fractions three abc).
Notation likeliest := (@draw_greedy fractions three abc).
Notation likeliest_rule := (@greedy_draft.greedy_draft fractions three abc).
Notation target_rule := (@target_first.target_first fractions three abc).

(* ------------------------------------------------------------------- SpecHub and greedy draft *)
Lemma far_hub : @most_probable fractions three abc q_far 1 = [:: token_a].
Proof. by computed. Qed.
Lemma near_hub : @most_probable fractions three abc q_near 1 = [:: token_c].
Proof. by computed. Qed.

(* 0 + min(1/3, 1) + min(2/3, 0) *)
Example spechub_accepts_far : spechub_accepts abc p_far q_far 2 = 1 / 3%:Q.
Proof.
rewrite (spechub_acceptsE abc_complete p_far_row q_far_row _ far_hub) //.
by rewrite big_mkcond sum_abc; computed.
Qed.
Example greedy_draft_accepts_far : greedy_draft_accepts abc p_far q_far 2 = 1 / 3%:Q.
Proof.
rewrite (greedy_draft_acceptsE abc_complete 2 p_far_row q_far_row).
by rewrite big_mkcond sum_abc [X in _ + X]big_mkcond sum_abc big_mkcond sum_abc; computed.
Qed.
(* Three drafts are asked for, and the draft has two tokens: the mass of the others is 0. *)
Example greedy_draft_accepts_all : greedy_draft_accepts abc p_far q_far 3 = 1 / 3%:Q.
Proof.
rewrite (greedy_draft_acceptsE abc_complete 3 p_far_row q_far_row).
by rewrite big_mkcond sum_abc [X in _ + X]big_mkcond sum_abc big_mkcond sum_abc; computed.
Qed.
Example same_acceptance : [/\ spechub_accepts abc p_near q_near 2 = 1,
  greedy_draft_accepts abc p_near q_near 2 = 1
  & spechub_accepts abc p_near q_near 2 = greedy_draft_accepts abc p_near q_near 2].
Proof.
by split; [computed|computed|exact: (spechub_is_greedy_draft abc_complete p_near_row q_near_row)].
Qed.
(* The total variation, 1/2, is at most q(hub) / (1 - q(hub)) = 1. *)
Example rejection_under_spechub :
  let rejected := probability (fun d => d.2.2) (position (@draw_iid fractions three abc q_near 2)
    (fun s => @recursive_rejection fractions three abc true s p_near q_near)) in
  [/\ rejected = 3%:Q / 4%:Q, spechub_accepts abc p_near q_near 2 = 1
    & rejected <= spechub_accepts abc p_near q_near 2].
Proof.
split; [computed|computed|].
apply: (spechub_over_rejection abc_complete p_near_row q_near_row _ near_hub) => //.
by rewrite sum_abc; computed.
Qed.
Example drafted_beside_hub : drafted token_a (pairs q_near 2) = 1 / 2%:Q.
Proof. by rewrite (drafted_spechub abc_complete _ q_near_row _ near_hub); [computed|]. Qed.
(* Of single tokens: min(1/2, 1/4). *)
Example accepted_single :
  descent.accepted token_a (position (pairs q_near 1) (fun s => pair_rule s p_near q_near))
  = 1 / 4%:Q.
Proof. by rewrite (accepted_spechub_best abc_complete _ _ p_near_row q_near_row); computed. Qed.

(* --------------------------------------------------------------- another verifier, of any drafts *)
(* It draws from the target, and goes on if that was drafted. *)
Section TargetFirst.
Variables (p q : seq 'I_3 -> 'I_3 -> rat) (drafts : law fractions (seq 'I_3)).
Hypotheses (p_model : is_model p) (drafts_law : is_law drafts).
Definition by_target := one_position abc p q drafts target_rule.
Lemma by_target_follows : descent.follows (p [::])
  (position drafts (fun s => target_rule s (p [::]) (q [::]))).
Proof. exact: (follows_target_first abc_complete). Qed.
Lemma by_target_verifies : verifies id p by_target.
Proof.
apply: (one_position_verifies abc_complete p_model by_target_follows) => s chosen _.
exact: target_first_drafted.
Qed.
Lemma by_target_draws : draws id drafts by_target.
Proof.
by apply: (one_position_draws abc_complete p_model) => s _; apply: (law_target_first abc_complete).
Qed.
End TargetFirst.
Notation near_pairs := (pairs q_near 2).
Lemma near_pairs_law : is_law near_pairs. Proof. exact: (law_draw_hub abc_complete 2 q_near_row). Qed.
Definition near_by_target := by_target P_near Q_near near_pairs.
Lemma near_verifies : verifies id P_near near_by_target.
Proof. exact: (by_target_verifies Q_near P_near_model near_pairs_law). Qed.
Lemma near_draws : draws id near_pairs near_by_target.
Proof. exact: (by_target_draws Q_near near_pairs P_near_model). Qed.

(* 1/2 * 1/2 + 1/2 * 1/2 + 0 *)
Example near_accepts : accepts_some near_by_target = 1 / 2%:Q.
Proof.
rewrite (one_position_accepts abc_complete P_near_model (by_target_follows Q_near P_near_model
  near_pairs_law)).
by rewrite sum_abc; computed.
Qed.
(* The siblings beside the emission are the pairs. *)
Example near_siblings : probability (fun o => o.1 == [:: token_a; token_c]) near_by_target =
  1 / 4%:Q.
Proof. by rewrite (near_draws (pred1 [:: token_a; token_c])); computed. Qed.
Example near_at_most : let most := \sum_a Num.min (p_near a) (drafted a near_pairs) in
  [/\ accepts_some near_by_target = 1 / 2%:Q, most = 1 & accepts_some near_by_target <= most].
Proof.
split; [exact: near_accepts|by rewrite sum_abc; computed|].
exact: (accepts_some_at_most near_verifies near_draws).
Qed.
Example near_below_spechub : [/\ accepts_some near_by_target = 1 / 2%:Q,
  spechub_accepts abc p_near q_near 2 = 1
  & accepts_some near_by_target <= spechub_accepts abc p_near q_near 2].
Proof.
split; [exact: near_accepts|computed|].
exact: (spechub_optimal abc_complete P_near_model (q := Q_near) q_near_row near_verifies near_draws).
Qed.
Example spechub_verifies_far : let m := one_position abc P_far Q_far (pairs q_far 2) pair_rule in
  [/\ verifies id P_far m, draws id (pairs q_far 2) m & accepts_some m = 1 / 3%:Q].
Proof.
have [sound drawn rate] := spechub_verifies abc_complete (q := Q_far) 2 P_far_model q_far_row.
by split; [exact: sound|exact: drawn|exact: (etrans rate spechub_accepts_far)].
Qed.
Lemma likeliest_law : is_law (likeliest q_near 2).
Proof. exact: (law_draw_greedy abc_complete q_near_row). Qed.
Definition near_likeliest := by_target P_near Q_near (likeliest q_near 2).
Example near_below_greedy_draft : [/\ accepts_some near_likeliest = 1 / 2%:Q,
  greedy_draft_accepts abc p_near q_near 2 = 1
  & accepts_some near_likeliest <= greedy_draft_accepts abc p_near q_near 2].
Proof.
split; [computed|computed|].
apply: (greedy_draft_optimal abc_complete P_near_model (q := Q_near) q_near_row (siblings := id)).
  exact: (by_target_verifies Q_near P_near_model likeliest_law).
exact: (by_target_draws Q_near (likeliest q_near 2) P_near_model).
Qed.
Example greedy_draft_verifies_far :
  let m := one_position abc P_far Q_far (likeliest q_far 2) likeliest_rule in
  [/\ verifies id P_far m, draws id (likeliest q_far 2) m & accepts_some m = 1 / 3%:Q].
Proof.
have [sound drawn rate] := greedy_draft_verifies abc_complete (q := Q_far) 2 P_far_model q_far_row.
by split; [exact: sound|exact: drawn|exact: (etrans rate greedy_draft_accepts_far)].
Qed.

(* ---------------------------------------------------------------------------------- in a tree *)
Definition tree_of (scheme : ('I_3 -> rat) -> nat -> law fractions (seq 'I_3))
    (choose : rule fractions three) : law fractions (emission 'I_3) :=
  @descend fractions three abc P_far Q_far
    (@growing fractions three scheme (fun=> 2%N) Q_far) choose 2 [::].
Example spechub_tree_far :
  probability (fun e => e.1 != [::]) (tree_of pairs pair_rule) = 1 / 3%:Q.
Proof.
rewrite /tree_of (spechub_tree_accepts abc_complete (fun=> 2%N) 1 P_far_model Q_far_model).
exact: spechub_accepts_far.
Qed.
Example greedy_draft_tree_far :
  probability (fun e => e.1 != [::]) (tree_of likeliest likeliest_rule) = 1 / 3%:Q.
Proof.
rewrite /tree_of (greedy_draft_tree_accepts abc_complete (fun=> 2%N) 1 P_far_model Q_far_model).
exact: greedy_draft_accepts_far.
Qed.
(* Pairs at the root, and one token wherever anything was accepted: 1/3 of all texts begin with the
   second token, after which the target has the first alone. *)
Example naive_tree_of_hubs : writes P_far [:: token_b; token_a; token_a]
  (@descend fractions three abc P_far Q_far (@on_demand _ three pairs
     (fun h => if h is [::] then 2 else 1)%N Q_far) (naive_tree abc) 2 [::]) = 1 / 3%:Q.
Proof.
have [_ _ ->] := naive_tree_hub_lossless abc_complete (fun h => if h is [::] then 2 else 1)%N 2
  P_far_model Q_far_model.
by computed.
Qed.
