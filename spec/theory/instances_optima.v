(* Instances of the theorems about what no verifier exceeds, and about what reaches it.

   Three tokens and two: pairs and i.i.d. drafts of one position, with zeros, a tie between the
   draft's likeliest tokens and, after the first token, disjoint supports. Where a bound is said, so
   are the numbers on both of its sides, and they differ wherever they can. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import acceptance one_position laws emission greedy_block descent.
From Draftproof Require Import rejection greedy_draft spechub target_first block selection mixed.
From Draftproof Require Import instances.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --------------------------------------------------------------------------------- three tokens *)
(* Much is refused: the hub, the first of two equals, is not the target's, and what is mostly the
   target's is never drafted. *)
Definition p_far := row3 0 (1 / 3%:Q) (2%:Q / 3%:Q).
Definition q_far := row3 (1 / 2%:Q) (1 / 2%:Q) 0.
Lemma p_far_row : is_row p_far. Proof. exact: is_row3. Qed.
Lemma q_far_row : is_row q_far. Proof. exact: is_row3. Qed.
(* Nothing need be refused: the hub is not the target's, and the rest of a pair is as the target. *)
Definition p_near := row3 (1 / 2%:Q) (1 / 2%:Q) 0.
Definition q_near := row3 (1 / 4%:Q) (1 / 4%:Q) (1 / 2%:Q).
Lemma p_near_row : is_row p_near. Proof. exact: is_row3. Qed.
Lemma q_near_row : is_row q_near. Proof. exact: is_row3. Qed.
(* After the first token the target and the draft are disjoint. *)
Definition begins_with (r : 'I_3 -> rat) (next : 'I_3) (z : seq 'I_3) : 'I_3 -> rat :=
  if z is [::] then r else fun x => (x == next)%:R.
Lemma begins_with_model r next : is_row r -> is_model (begins_with r next).
Proof.
move=> r_row [|a z] //=; split=> [x|]; first exact: ler0n.
by rewrite sum3; case: next => -[|[|[|x]]] lt //; computed.
Qed.
Notation P_far := (begins_with p_far token0).
Notation Q_far := (begins_with q_far token2).
Notation P_near := (begins_with p_near token0).
Notation Q_near := (begins_with q_near token2).
Definition P_far_model : is_model P_far := begins_with_model token0 p_far_row.
Definition Q_far_model : is_model Q_far := begins_with_model token2 q_far_row.
Definition P_near_model : is_model P_near := begins_with_model token0 p_near_row.

Notation pairs := (@draw_hub fractions three vocabulary3).
Notation pair_rule := (@spechub.spechub fractions three vocabulary3).
Notation likeliest := (@draw_greedy fractions three vocabulary3).
Notation likeliest_rule := (@greedy_draft.greedy_draft fractions three vocabulary3).
Notation target_rule := (@target_first.target_first fractions three vocabulary3).

(* ------------------------------------------------------------------- SpecHub and greedy draft *)
Lemma far_hub : @most_probable fractions three vocabulary3 q_far 1 = [:: token0].
Proof. by computed. Qed.
Lemma near_hub : @most_probable fractions three vocabulary3 q_near 1 = [:: token2].
Proof. by computed. Qed.

(* 0 + min(1/3, 1) + min(2/3, 0) *)
Example spechub_accepts_far : spechub_accepts vocabulary3 p_far q_far 2 = 1 / 3%:Q.
Proof.
rewrite (spechub_acceptsE complete3 p_far_row q_far_row _ far_hub) //.
by rewrite big_mkcond sum3; computed.
Qed.
Example greedy_draft_accepts_far : greedy_draft_accepts vocabulary3 p_far q_far 2 = 1 / 3%:Q.
Proof.
rewrite (greedy_draft_acceptsE complete3 2 p_far_row q_far_row).
by rewrite big_mkcond sum3 [X in _ + X]big_mkcond sum3 big_mkcond sum3; computed.
Qed.
(* Three drafts are asked for, and the draft has two tokens: the mass of the others is 0. *)
Example greedy_draft_accepts_all : greedy_draft_accepts vocabulary3 p_far q_far 3 = 1 / 3%:Q.
Proof.
rewrite (greedy_draft_acceptsE complete3 3 p_far_row q_far_row).
by rewrite big_mkcond sum3 [X in _ + X]big_mkcond sum3 big_mkcond sum3; computed.
Qed.
Example same_acceptance : [/\ spechub_accepts vocabulary3 p_near q_near 2 = 1,
  greedy_draft_accepts vocabulary3 p_near q_near 2 = 1
  & spechub_accepts vocabulary3 p_near q_near 2 = greedy_draft_accepts vocabulary3 p_near q_near 2].
Proof.
by split; [computed|computed|exact: (spechub_is_greedy_draft complete3 p_near_row q_near_row)].
Qed.
(* The total variation, 1/2, is at most q(hub) / (1 - q(hub)) = 1. *)
Example rejection_under_spechub :
  let rejected := probability (fun d => d.2.2) (position (@draw_iid fractions three vocabulary3 q_near 2)
    (fun s => @recursive_rejection fractions three vocabulary3 true s p_near q_near)) in
  [/\ rejected = 3%:Q / 4%:Q, spechub_accepts vocabulary3 p_near q_near 2 = 1
    & rejected <= spechub_accepts vocabulary3 p_near q_near 2].
Proof.
split; [computed|computed|].
apply: (spechub_over_rejection complete3 p_near_row q_near_row _ near_hub) => //.
by rewrite sum3; computed.
Qed.
Example drafted_beside_hub : drafted token0 (pairs q_near 2) = 1 / 2%:Q.
Proof. by rewrite (drafted_spechub complete3 _ q_near_row _ near_hub); [computed|]. Qed.
(* Of single tokens: min(1/2, 1/4). *)
Example accepted_single :
  descent.accepted token0 (position (pairs q_near 1) (fun s => pair_rule s p_near q_near))
  = 1 / 4%:Q.
Proof. by rewrite (accepted_spechub_best complete3 _ _ p_near_row q_near_row); computed. Qed.

(* ------------------------------------------------------------- another verifier, of any drafts *)
(* It draws from the target, and goes on if that was drafted. *)
Section TargetFirst.
Variables (p q : seq 'I_3 -> 'I_3 -> rat) (drafts : law fractions (seq 'I_3)).
Hypotheses (p_model : is_model p) (drafts_law : is_law drafts).
Definition by_target := one_position vocabulary3 p q drafts target_rule.
Lemma by_target_follows : descent.follows (p [::])
  (position drafts (fun s => target_rule s (p [::]) (q [::]))).
Proof. exact: (follows_target_first complete3). Qed.
Lemma by_target_verifies : verifies id p by_target.
Proof.
apply: (one_position_verifies complete3 p_model by_target_follows) => s chosen _.
exact: target_first_drafted.
Qed.
Lemma by_target_draws : draws id drafts by_target.
Proof.
apply: (one_position_draws complete3 p_model) => s _.
exact: (law_target_first complete3).
Qed.
End TargetFirst.
Notation near_pairs := (pairs q_near 2).
Lemma near_pairs_law : is_law near_pairs.
Proof. exact: (law_draw_hub complete3 2 q_near_row). Qed.
Definition near_by_target := by_target P_near Q_near near_pairs.
Lemma near_verifies : verifies id P_near near_by_target.
Proof. exact: (by_target_verifies Q_near P_near_model near_pairs_law). Qed.
Lemma near_draws : draws id near_pairs near_by_target.
Proof. exact: (by_target_draws Q_near near_pairs P_near_model). Qed.

(* 1/2 * 1/2 + 1/2 * 1/2 + 0 *)
Example near_accepts : accepts_some near_by_target = 1 / 2%:Q.
Proof.
rewrite (one_position_accepts complete3 P_near_model (by_target_follows Q_near P_near_model
  near_pairs_law)).
by rewrite sum3; computed.
Qed.
(* The siblings beside the emission are the pairs. *)
Example near_siblings : probability (fun o => o.1 == [:: token0; token2]) near_by_target =
  1 / 4%:Q.
Proof. by rewrite (near_draws (pred1 [:: token0; token2])); computed. Qed.
Example near_at_most : let most := \sum_a Num.min (p_near a) (drafted a near_pairs) in
  [/\ accepts_some near_by_target = 1 / 2%:Q, most = 1 & accepts_some near_by_target <= most].
Proof.
split; [exact: near_accepts|by rewrite sum3; computed|].
exact: (accepts_some_at_most near_verifies near_draws).
Qed.
Example near_below_spechub : [/\ accepts_some near_by_target = 1 / 2%:Q,
  spechub_accepts vocabulary3 p_near q_near 2 = 1
  & accepts_some near_by_target <= spechub_accepts vocabulary3 p_near q_near 2].
Proof.
split; [exact: near_accepts|computed|].
exact: (spechub_optimal complete3 P_near_model (q := Q_near) q_near_row near_verifies
  near_draws).
Qed.
Example spechub_verifies_far : let m := one_position vocabulary3 P_far Q_far (pairs q_far 2) pair_rule in
  [/\ verifies id P_far m, draws id (pairs q_far 2) m & accepts_some m = 1 / 3%:Q].
Proof.
have [sound drawn rate] := spechub_verifies complete3 (q := Q_far) 2 P_far_model q_far_row.
by split; [exact: sound|exact: drawn|exact: (etrans rate spechub_accepts_far)].
Qed.
Lemma likeliest_law : is_law (likeliest q_near 2).
Proof. exact: (law_draw_greedy complete3 q_near_row). Qed.
Definition near_likeliest := by_target P_near Q_near (likeliest q_near 2).
Example near_below_greedy_draft : [/\ accepts_some near_likeliest = 1 / 2%:Q,
  greedy_draft_accepts vocabulary3 p_near q_near 2 = 1
  & accepts_some near_likeliest <= greedy_draft_accepts vocabulary3 p_near q_near 2].
Proof.
split; [computed|computed|].
apply: (greedy_draft_optimal complete3 P_near_model (q := Q_near) q_near_row (siblings := id)).
  exact: (by_target_verifies Q_near P_near_model likeliest_law).
exact: (by_target_draws Q_near (likeliest q_near 2) P_near_model).
Qed.
Example greedy_draft_verifies_far :
  let m := one_position vocabulary3 P_far Q_far (likeliest q_far 2) likeliest_rule in
  [/\ verifies id P_far m, draws id (likeliest q_far 2) m & accepts_some m = 1 / 3%:Q].
Proof.
have [sound drawn rate] := greedy_draft_verifies complete3 (q := Q_far) 2 P_far_model q_far_row.
by split; [exact: sound|exact: drawn|exact: (etrans rate greedy_draft_accepts_far)].
Qed.

(* ---------------------------------------------------------------------------------- in a tree *)
Definition tree_of (scheme : ('I_3 -> rat) -> nat -> law fractions (seq 'I_3))
    (choose : rule fractions three) : law fractions (emission 'I_3) :=
  @descend fractions three vocabulary3 P_far Q_far
    (@growing fractions three scheme (fun=> 2%N) Q_far) choose 2 [::].
Example spechub_tree_far :
  probability (fun e => e.1 != [::]) (tree_of pairs pair_rule) = 1 / 3%:Q.
Proof.
rewrite /tree_of (spechub_tree_accepts complete3 (fun=> 2%N) 1 P_far_model Q_far_model).
exact: spechub_accepts_far.
Qed.
Example greedy_draft_tree_far :
  probability (fun e => e.1 != [::]) (tree_of likeliest likeliest_rule) = 1 / 3%:Q.
Proof.
rewrite /tree_of (greedy_draft_tree_accepts complete3 (fun=> 2%N) 1 P_far_model Q_far_model).
exact: greedy_draft_accepts_far.
Qed.
(* Pairs at the root, and one token wherever anything was accepted: 1/3 of all texts begin with the
   second token, after which the target has the first alone. *)
Example naive_tree_of_hubs : writes P_far [:: token1; token0; token0]
  (@descend fractions three vocabulary3 P_far Q_far (@on_demand _ three pairs
     (fun h => if h is [::] then 2 else 1)%N Q_far) (naive_tree vocabulary3) 2 [::]) = 1 / 3%:Q.
Proof.
have [_ _ ->] := naive_tree_hub_lossless complete3 (fun h => if h is [::] then 2 else 1)%N 2
  P_far_model Q_far_model.
by computed.
Qed.

(* ----------------------------------------------------------------- the rate of all verifiers *)
(* The pair is both tokens of the draft, always; outside of it is 2/3 of the target. *)
Notation far_pairs := (pairs q_far 2).
Lemma far_pairs_law : is_law far_pairs. Proof. exact: (law_draw_hub complete3 2 q_far_row). Qed.
Example rate_of_all : exists m : law fractions
    (seq 'I_3 * (emission 'I_3 * (seq 'I_3 -> 'I_3 -> rat))),
  [/\ verifies id P_far m, draws id far_pairs m, accepts_some m = 1 / 3%:Q
    & forall m' : law fractions (seq 'I_3 * (emission 'I_3 * (seq 'I_3 -> 'I_3 -> rat))),
        verifies id P_far m' -> draws id far_pairs m' -> accepts_some m' <= 1 / 3%:Q].
Proof.
have [m [H [sound drawn rate least most]]] := acceptance_rate_verifiers P_far_model far_pairs_law.
suff thirdE : accepts_some m = 1 / 3%:Q.
  exists m; split=> // m' sound' drawn'; rewrite -thirdE rate.
  exact: most sound' drawn'.
apply/eqP; rewrite eq_le; apply/andP; split.
  rewrite rate; apply: le_trans (least [set x | x != token2]) _.
  rewrite /acceptance.mass big_mkcond sum3 !inE.
  rewrite (_ : probability _ _ = probability (all (predC1 token2)) far_pairs); first by checked.
  by apply: eq_expected => s; congr (nat_of_bool _)%:R; apply: eq_all => x; rewrite !inE.
rewrite rate; apply: le_trans (most _ id (by_target P_far Q_far far_pairs)
  (by_target_verifies Q_far P_far_model far_pairs_law)
  (by_target_draws Q_far far_pairs P_far_model)).
by checked.
Qed.

(* Two sources of 2/3 and 1/3, each joined to one of two sinks of 1/2. *)
Definition parallel : {set bool * bool} := [set o | o.1 == o.2].
Definition source (i : bool) : rat := if i then 2%:Q / 3%:Q else 1 / 3%:Q.
Definition sink (j : bool) : rat := 1 / 2%:Q.
Definition current (i j : bool) : rat := if i != j then 0 else if i then 1 / 2%:Q else 1 / 3%:Q.
Lemma current_flows : is_flow source sink parallel current.
Proof.
split=> [i j|i j|i|j]; rewrite ?inE ?big_bool.
- by case: i; case: j.
- by case: i; case: j.
- by case: i; checked.
by case: j; checked.
Qed.
Lemma open_true j : open_to parallel [set false] j = j.
Proof.
apply/existsP/idP => [[i]|j_true]; last by exists true; rewrite !inE j_true.
by rewrite !inE /=; case: i; case: j.
Qed.
Example current_at_cut : let value := \sum_i \sum_j current i j in
  let bound := cut source sink parallel [set false] in
  [/\ value = 5%:Q / 6%:Q, bound = 5%:Q / 6%:Q & value <= bound].
Proof.
split; [by rewrite !big_bool; computed| |exact: (flow_at_most_cut [set false] current_flows)].
rewrite /cut big_set1 (eq_bigl _ _ open_true) big_mkcond big_bool; computed.
Qed.

(* ----------------------------------------------------------------------------------- two tokens *)
Definition both : seq bool := [:: true; false].
Lemma both_complete : perm_eq both (enum [finType of bool]).
Proof. by apply: uniq_perm; rewrite ?enum_uniq // => -[]; rewrite mem_enum. Qed.
(* Two thirds and a third, and a draft that is even; after any token, disjoint supports. *)
Definition P_both (z : seq bool) (x : bool) : rat :=
  if z is [::] then (if x then 2%:Q / 3%:Q else 1 / 3%:Q) else if x then 0 else 1.
Definition Q_both (z : seq bool) (x : bool) : rat :=
  if z is [::] then 1 / 2%:Q else if x then 1 else 0.
Lemma P_both_model : is_model P_both.
Proof. by case=> [|a z]; split=> [[]|] //; rewrite big_bool; computed. Qed.
Lemma Q_both_model : is_model Q_both.
Proof. by case=> [|a z]; split=> [[]|] //; rewrite big_bool; computed. Qed.
Definition ratio_rank : seq bool -> bool -> nat :=
  in_order (by_ratio (N := fractions) both P_both Q_both).
Lemma ratio_rank_strict : strict Q_both ratio_rank.
Proof. by apply: (strict_by_ratio both_complete) => z a; case: (Q_both_model z). Qed.

Notation largest := (most_kept_next (N := fractions) both).
Definition mixed_with (mix : mixture fractions bool_eqType) (n : nat) :
    law fractions (emission bool) :=
  @mixed_multipath_block fractions _ both ratio_rank mix P_both Q_both 2 n.
Definition greedy_paths (n : nat) : law fractions (emission bool) :=
  @multipath_block fractions _ both ratio_rank P_both Q_both 2 n.
Definition one_path (n : nat) : law fractions (emission bool) :=
  @block.block fractions _ both P_both Q_both n.
Notation first_accepted m := (probability (fun e => e.1 != [::]) m).

(* The highest of two has the law 3/4 and 1/4, and any draft 1/2 and 1/2. *)
Definition halves : mixture fractions bool_eqType := fun _ _ _ _ => 1 / 2%:Q.
Lemma halves01 z owed highest uniform : 0 <= (halves z owed highest uniform : rat) <= 1.
Proof. by []. Qed.
(* min(2/3, 5/8) + min(1/3, 3/8) *)
Example mixed_accepts_halves : first_accepted (mixed_with halves 2) = 23%:Q / 24%:Q.
Proof.
rewrite /mixed_with (mixed_accepts_some both_complete P_both_model Q_both_model ratio_rank_strict
  halves01) // /kept_first big_bool; computed.
Qed.
(* min(2/3, 3/4) + min(1/3, 1/4) *)
Example greedy_paths_accept : first_accepted (greedy_paths 2) = 11%:Q / 12%:Q.
Proof.
rewrite /greedy_paths (multipath_accepts_some both_complete P_both_model Q_both_model
  ratio_rank_strict) // /kept_first big_bool; computed.
Qed.
(* min(2/3, 1/2) + min(1/3, 1/2) *)
Example one_path_accepts : first_accepted (one_path 2) = 5%:Q / 6%:Q.
Proof.
rewrite /one_path (block_accepts_some both_complete P_both_model Q_both_model ratio_rank 2).
by rewrite /kept_first big_bool; computed.
Qed.
(* The local rule takes two thirds at the root, and nothing is refused. *)
Lemma largest01 z owed highest uniform : 0 <= (largest z owed highest uniform : rat) <= 1.
Proof. exact: most_kept_next01. Qed.
Lemma largest_accepts : first_accepted (mixed_with largest 2) = 1.
Proof.
rewrite /mixed_with (mixed_accepts_some both_complete P_both_model Q_both_model ratio_rank_strict
  largest01) // /kept_first big_bool; computed.
Qed.
Example over_any : [/\ first_accepted (mixed_with halves 2) = 23%:Q / 24%:Q,
  first_accepted (mixed_with largest 2) = 1
  & first_accepted (mixed_with halves 2) <= first_accepted (mixed_with largest 2)].
Proof.
split; [exact: mixed_accepts_halves|exact: largest_accepts|].
exact: (most_kept_over_any both_complete P_both_model Q_both_model ratio_rank_strict _ 1 halves01).
Qed.
Example over_multipath : [/\ first_accepted (greedy_paths 2) = 11%:Q / 12%:Q,
  first_accepted (mixed_with largest 2) = 1
  & first_accepted (greedy_paths 2) <= first_accepted (mixed_with largest 2)].
Proof.
split; [exact: greedy_paths_accept|exact: largest_accepts|].
exact: (most_kept_over_multipath both_complete P_both_model Q_both_model ratio_rank_strict).
Qed.
Example over_block : [/\ first_accepted (one_path 2) = 5%:Q / 6%:Q,
  first_accepted (mixed_with largest 2) = 1
  & first_accepted (one_path 2) <= first_accepted (mixed_with largest 2)].
Proof.
split; [exact: one_path_accepts|exact: largest_accepts|].
exact: (most_kept_over_block both_complete P_both_model Q_both_model ratio_rank_strict).
Qed.
(* min(2/3, 7/12) + min(1/3, 5/12) *)
Example over_third : let kept := kept_first both P_both Q_both ratio_rank 2 (1 / 3%:Q) in
  [/\ kept = 11%:Q / 12%:Q, first_accepted (mixed_with largest 2) = 1
    & kept <= first_accepted (mixed_with largest 2)].
Proof.
split; [by rewrite /kept_first big_bool; computed|exact: largest_accepts|].
exact: (most_kept_first both_complete P_both_model Q_both_model ratio_rank_strict).
Qed.

(* The share that keeps most, of rows alone. *)
Definition highest_row (x : bool) : rat := if x then 3%:Q / 4%:Q else 1 / 4%:Q.
Notation kept_of owed := (@kept_next fractions _ both owed highest_row (Q_both [::])).
Notation best_of owed := (largest [::] owed highest_row (Q_both [::]) : rat).
Example quarter_keeps_less : [/\ kept_of (P_both [::]) (1 / 4%:Q) = 43%:Q / 48%:Q,
  kept_of (P_both [::]) (best_of (P_both [::])) = 1
  & kept_of (P_both [::]) (1 / 4%:Q) <= kept_of (P_both [::]) (best_of (P_both [::]))].
Proof.
split; [computed|computed|].
exact: (most_kept_most both_complete (P_both [::]) highest_row (Q_both [::])).
Qed.
(* With nothing owed to `false`, all shares from two thirds to one keep as much. *)
Definition owed_true (x : bool) : rat := if x then 2%:Q / 3%:Q else 0.
Example smallest_share : [/\ best_of owed_true = 2%:Q / 3%:Q,
  kept_of owed_true 1 = kept_of owed_true (best_of owed_true) & best_of owed_true <= 1].
Proof.
have same : kept_of owed_true 1 = kept_of owed_true (best_of owed_true) by computed.
by split; [computed| |exact: (most_kept_smallest both_complete _ same)].
Qed.

(* Another verifier of two i.i.d. tokens: it draws from the target, and goes on if that is drafted.
   Two thirds and a third, each with 3/4. *)
Notation two_iid := (@draw_iid fractions [finType of bool] both (Q_both [::]) 2).
Definition target_rule_both := @target_first.target_first fractions [finType of bool] both.
Definition iid_by_target := one_position both P_both Q_both two_iid target_rule_both.
Example below_mixed : [/\ accepts_some iid_by_target = 3%:Q / 4%:Q,
  first_accepted (mixed_with largest 2) = 1
  & accepts_some iid_by_target <= first_accepted (mixed_with largest 2)].
Proof.
split; [computed|exact: largest_accepts|].
apply: (mixed_optimal_two_tokens both_complete P_both_model Q_both_model (isT : (0 < 2)%N)
  card_bool 1 (siblings := id)).
  apply: (one_position_verifies both_complete P_both_model) => [|s chosen _].
    apply: (follows_target_first both_complete); last exact: (P_both_model [::]).
    exact: (law_draw_iid both_complete (Q_both_model [::])).
  exact: target_first_drafted.
apply: (one_position_draws both_complete P_both_model) => s _.
exact: (law_target_first both_complete _ _ (P_both_model [::])).
Qed.

(* With the order of p/q, both verifiers of several paths are lossless. *)
Example greedy_paths_lossless : [/\ is_law (greedy_paths 2),
  accepts [:: true] (greedy_paths 2) + ends [::] true (greedy_paths 2) = 2%:Q / 3%:Q
  & writes P_both [:: true; false; false] (greedy_paths 2) = 2%:Q / 3%:Q].
Proof.
have [sound balances ->] := multipath_block_by_ratio both_complete P_both_model Q_both_model
  (isT : (0 < 2)%N) 2.
split; [exact: sound| |computed].
by rewrite (balances [::] true) /accepts; computed.
Qed.
Example largest_lossless : [/\ is_law (mixed_with largest 2),
  accepts [:: true] (mixed_with largest 2) + ends [::] true (mixed_with largest 2) = 2%:Q / 3%:Q
  & writes P_both [:: true; false; false] (mixed_with largest 2) = 2%:Q / 3%:Q].
Proof.
have [sound balances ->] := mixed_by_ratio both_complete P_both_model Q_both_model
  (isT : (0 < 2)%N) 2.
split; [exact: sound| |computed].
rewrite (balances [::] true).
by rewrite (mixed_multipath_block_accepts both_complete P_both_model Q_both_model
  ratio_rank_strict largest01); computed.
Qed.

(* -------------------------------------------------------------- what is selected was drafted *)
(* Two paths, and one that has its first token from one of them and its second from the other. *)
Notation by_height := (go_to_highest fractions ratio_rank).
Example no_crossing : ~ possible
  (select by_height 2 [::] [:: [:: true; false]; [:: false; true]]) [:: true; true].
Proof.
move=> can; suff: [:: true; true] \in [:: [:: true; false]; [:: false; true]] by [].
by apply: (selected_drafted _ _ _ can) => //; exact: highest_chosen.
Qed.
Lemma crossed_drafted : possible (independent (@path fractions _ both Q_both 2 [::]) 2)
  [:: [:: true; true]; [:: false; true]].
Proof. by apply: possible_computed; checked. Qed.
Example highest_not_drafted : ~ possible
  (select by_height 2 [::] [:: [:: true; true]; [:: false; true]]) [:: true; false].
Proof. by move=> can; have := highest_drafted (isT : (0 < 2)%N) crossed_drafted can. Qed.
Example mixed_not_drafted : ~ possible
  (select (@highest_or_any fractions _ both ratio_rank halves P_both Q_both 2) 2 [::]
    [:: [:: true; true]; [:: false; true]]) [:: true; false].
Proof.
by move=> can; have := mixed_drafted both_complete halves01 (isT : (0 < 2)%N) crossed_drafted can.
Qed.
