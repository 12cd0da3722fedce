(* Instances of the theorems about the other rules for one position, K-SEQ, SpecHub, the greedy
   draft, target first and the naive tree, and about the acceptance rate.

   Three tokens and two siblings, as in `instances_descent`: p = (1/2, 1/2, 0) and
   q = (1/4, 1/4, 1/2), or the other way round. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission greedy_block acceptance descent rejection k_seq.
From Draftproof Require Import spechub greedy_draft target_first.
From Draftproof Require Import instances instances_greedy instances_descent.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* -------------------------------------------------------------------------------------- K-SEQ *)
(* The factor K, here 2, is valid for all rows: what is left of the target is not negative. *)
Definition by_width (_ _ : 'I_3 -> rat) (width : nat) : rat := (maxn 1 width)%:R.
Notation k_seq_rule := (@k_seq fractions tokens3 vocabulary3 by_width).
Definition k_seq2 : law fractions (seq 'I_3 * ('I_3 * bool)) :=
  position (iid q_row 2) (fun s => k_seq_rule s p_row q_row).
Lemma factor_pos : 0 < by_width p_row q_row 2. Proof. by checked. Qed.
Lemma rest_nonnegative x :
  0 <= k_seq.rest (N := fractions) vocabulary3 (by_width p_row q_row 2) p_row q_row 2 x.
Proof.
have valid := @width_is_valid _ _ _ complete3 _ _ 2 2 p_is_row q_is_row isT isT.
exact: (proj2 (k_seq.rest_ge0 complete3 p_is_row q_is_row valid)).
Qed.
Example expected_k_seq_refused : probability (fun d => d.2 == (token0, false)) k_seq2 = 1 / 8%:Q.
Proof.
rewrite /probability (expected_k_seq complete3 p_is_row q_is_row factor_pos rest_nonnegative
  (fun c => (c == (token0, false))%:R)).
by rewrite /scale /k_seq.b !sum3; computed.
Qed.
Example follows_k_seq_third : probability (fun d => d.2.1 == token2) k_seq2 = 0.
Proof.
have [_ follows] := follows_k_seq complete3 p_is_row q_is_row factor_pos rest_nonnegative.
exact: follows token2.
Qed.
Example accepted_k_seq_first : accepted token0 k_seq2 = 3%:Q / 8%:Q.
Proof.
rewrite (accepted_k_seq complete3 p_is_row q_is_row factor_pos rest_nonnegative).
by rewrite /scale /k_seq.b !sum3; computed.
Qed.
Example value_k_seq_half : probability (fun d => d.2.2) k_seq2 = 3%:Q / 4%:Q.
Proof.
rewrite (value_k_seq complete3 p_is_row q_is_row factor_pos rest_nonnegative).
by rewrite /k_seq.b sum3; computed.
Qed.
Example k_seq_writes : writes target3 text3 (tree iid k_seq_rule) = 1 / 4%:Q.
Proof.
have valid h : reachable target3 draft3 (on_demand iid (fun=> 3%N) draft3) k_seq_rule h ->
    (size h < 2)%N -> is_valid_factor (N := fractions) vocabulary3
      (by_width (target3 (node h)) (draft3 (node h)) (copies h * 3)%N)
      (target3 (node h)) (draft3 (node h)) (copies h * 3)%N.
  move=> _ _; apply: (width_is_valid complete3 (target3_model _) (draft3_model _)).
    by rewrite leq_max.
  by rewrite leq_max leqnn orbT.
have [_ _ lossless] := k_seq_lossless complete3 (widths := fun=> 3%N) (depth := 2) valid
  target3_model draft3_model.
by rewrite /tree lossless; computed.
Qed.

(* ------------------------------------------------------------------------------------ SpecHub *)
Notation hubs := (@draw_hub fractions tokens3 vocabulary3).
Notation spechub_rule := (@spechub.spechub fractions tokens3 vocabulary3).
Definition hub2 (p q : 'I_3 -> rat) : law fractions (seq 'I_3 * ('I_3 * bool)) :=
  position (hubs q 2) (fun s => spechub_rule s p q).

Example follows_spechub_first :
  probability (fun d => d.2.1 == token0) (hub2 p_row q_row) = 1 / 2%:Q.
Proof.
have [_ follows] := follows_spechub complete3 2 p_is_row q_is_row.
exact: follows token0.
Qed.
(* The hub is the third token, which the target never writes; the others get 1/4 / (1 - 1/2). *)
Lemma third_is_hub : @most_probable fractions tokens3 vocabulary3 q_row 1 = [:: token2].
Proof. by computed. Qed.
Example accepted_spechub_first : accepted token0 (hub2 p_row q_row) = 1 / 2%:Q.
Proof.
by rewrite (accepted_spechub complete3 _ p_is_row q_is_row _ third_is_hub); [computed|].
Qed.
Example accepted_spechub_hub : accepted token2 (hub2 p_row q_row) = 0.
Proof.
by rewrite (accepted_spechub complete3 _ p_is_row q_is_row _ third_is_hub); [computed|].
Qed.
(* What was not drafted does not go on. *)
Example spechub_needs_draft :
  ~ possible (spechub_rule [:: token0; token2] p_row q_row) (token1, true).
Proof.
move=> can; have pair : possible (hubs q_row 2) [:: token0; token2].
  by apply: possible_computed; checked.
by have := spechub_drafted complete3 q_is_row pair can isT.
Qed.
Example spechub_writes : writes target3 text3 (tree hubs spechub_rule) = 1 / 4%:Q.
Proof.
have [_ _ lossless] := spechub_lossless complete3 (fun=> 3%N) 2 target3_model draft3_model.
by rewrite /tree lossless; computed.
Qed.

(* ------------------------------------------------------------------------------ greedy draft *)
Notation greedy := (@draw_greedy fractions tokens3 vocabulary3).
Notation greedy_rule := (@greedy_draft.greedy_draft fractions tokens3 vocabulary3).
Definition greedy_position (p q : 'I_3 -> rat) (width : nat) :
    law fractions (seq 'I_3 * ('I_3 * bool)) :=
  position (greedy q width) (fun s => greedy_rule s p q).

(* The draft has two tokens, and both are drafted: of the target (1/4, 1/4, 1/2), half goes on. *)
Example expected_greedy_refused :
  probability (fun d => d.2 == (token2, false)) (greedy_position q_row p_row 3) = 1 / 2%:Q.
Proof.
rewrite /probability (expected_greedy_draft complete3 q_is_row p_is_row 3
  (fun c => (c == (token2, false))%:R)).
by rewrite sum3; computed.
Qed.
Example follows_greedy_third :
  probability (fun d => d.2.1 == token2) (greedy_position q_row p_row 3) = 1 / 2%:Q.
Proof.
have [_ follows] := follows_greedy_draft complete3 q_is_row p_is_row 3.
exact: follows token2.
Qed.
Example accepted_greedy_top : accepted token0 (greedy_position q_row p_row 3) = 1 / 4%:Q.
Proof.
by rewrite (accepted_greedy_draft complete3 q_is_row p_is_row) big_mkcond sum3; computed.
Qed.
(* Min(1/2, 0 / 0). *)
Example accepted_greedy_other : accepted token2 (greedy_position q_row p_row 3) = 0.
Proof.
by rewrite (accepted_greedy_draft complete3 q_is_row p_is_row) big_mkcond sum3; computed.
Qed.
Example accepted_greedy_best : accepted token0 (greedy_position p_row q_row 2) = 1 / 2%:Q.
Proof. by rewrite (accepted_greedy_draft_best complete3 p_is_row q_is_row); computed. Qed.
Example greedy_draft_writes : writes target3 text3 (tree greedy greedy_rule) = 1 / 4%:Q.
Proof.
have [_ _ lossless] := greedy_draft_lossless complete3 (fun=> 3%N) 2 target3_model draft3_model.
by rewrite /tree lossless; computed.
Qed.

(* ------------------------------------------------------------- target first and the naive tree *)
Definition by_target_twice : law fractions (seq 'I_3 * ('I_3 * bool)) :=
  position (iid q_row 2) (fun s => by_target s p_row q_row).
Example follows_target : probability (fun d => d.2.1 == token0) by_target_twice = 1 / 2%:Q.
Proof.
have [_ follows] := follows_target_first complete3 q_row (law_draw_iid complete3 q_is_row 2)
  p_is_row.
exact: follows token0.
Qed.
(* 1/2 * 7/16 *)
Example accepted_target : accepted token0 by_target_twice = 7%:Q / 32%:Q.
Proof. by rewrite (accepted_target_first complete3 token0 _ q_row p_is_row); computed. Qed.
Example target_first_writes : writes target3 text3 (tree (siblings_of false) by_target) = 1 / 4%:Q.
Proof.
have siblings_law h : is_law (on_demand (siblings_of false) (fun=> 3%N) draft3 h).
  exact: (law_draw_siblings complete3 (draft3_model (node h)) false (copies h * 3)).
have [_ _ lossless] := target_first_lossless complete3 2 draft3 siblings_law target3_model.
by rewrite /tree lossless; computed.
Qed.

Notation naive_rule := (@naive_tree fractions tokens3 vocabulary3).
Example follows_naive : probability (fun d => d.2.1 == token0)
  (position (siblings_of false q_row 2) (fun s => naive_rule s p_row q_row)) = 1 / 2%:Q.
Proof.
have [_ follows] := follows_naive_tree complete3 (law_draw_siblings complete3 q_is_row false 2)
  p_is_row q_is_row (first_alone_draw_siblings complete3 false 2 q_is_row).
exact: follows token0.
Qed.
Example accepted_naive : accepted token0
  (position (iid q_row 2) (fun s => naive_rule s p_row q_row)) = 5%:Q / 16%:Q.
Proof. by rewrite (accepted_naive_tree_iid complete3 token0 1 p_is_row q_is_row); computed. Qed.
Example naive_tree_writes : writes target3 text3 (tree (siblings_of false) naive_rule) = 1 / 4%:Q.
Proof.
have siblings_ok h : let siblings := on_demand (siblings_of false) (fun=> 3%N) draft3 h in
    is_law siblings /\ first_alone (draft3 (node h)) siblings.
  split; first exact: (law_draw_siblings complete3 (draft3_model (node h)) false (copies h * 3)).
  exact: (first_alone_draw_siblings complete3 false (copies h * 3) (draft3_model (node h))).
have [_ _ lossless] := naive_tree_lossless complete3 2 siblings_ok target3_model draft3_model.
by rewrite /tree lossless; computed.
Qed.

(* ------------------------------------------------------------------------- the acceptance rate *)
(* Pairs of i.i.d. siblings. *)
Notation pairs := [finType of 'I_3 * 'I_3].
Definition all_pairs : seq ('I_3 * 'I_3) := [seq (a, b) | a <- vocabulary3, b <- vocabulary3].
Lemma all_pairs_complete : perm_eq all_pairs (enum pairs).
Proof.
have all3 (x : 'I_3) : x \in vocabulary3 by rewrite (perm_mem complete3) mem_enum.
apply: uniq_perm; [by checked|exact: enum_uniq|move=> [a b]].
rewrite mem_enum; exact: (allpairs_f (fun a b => (a, b)) (all3 a) (all3 b)).
Qed.
Definition pair_siblings (j : 'I_3 * 'I_3) : seq 'I_3 := [:: j.1; j.2].
Definition pair_row (j : 'I_3 * 'I_3) : rat := q_row j.1 * q_row j.2.
Lemma pair_is_row : is_row pair_row.
Proof.
have [q0 q1] := q_is_row; split=> [j|]; first by rewrite mulr_ge0.
rewrite -(pair_bigA _ (fun a b => q_row a * q_row b)) /=.
by under eq_bigr do rewrite -mulr_sumr q1 mulr1.
Qed.
Definition pair_drafts : law fractions ('I_3 * 'I_3) := draw (N := fractions) all_pairs pair_row.
Definition pair_rule (j : 'I_3 * 'I_3) : law fractions 'I_3 :=
  c <- rejection_of true (pair_siblings j) p_row q_row ;; ret _ c.1.
Lemma each_pair (P : 'I_3 * 'I_3 -> bool) : all P all_pairs -> forall j, P j.
Proof.
move=> /allP all_P j; apply: all_P.
by rewrite (perm_mem all_pairs_complete) mem_enum.
Qed.
Lemma pair_drafts_law : is_law pair_drafts.
Proof. by apply: law_computed; checked. Qed.
Lemma pair_rule_law j : is_law (pair_rule j).
Proof.
apply: law_computed; move: j; apply: each_pair; checked.
Qed.
Lemma pair_rule_follows : acceptance.follows pair_drafts pair_rule p_row.
Proof. by case=> -[|[|[|y]]] lt; [computed|computed|computed|discriminate lt]. Qed.

(* The bound of a set of tokens, by which of them are in it. *)
Definition tests (h0 h1 h2 : bool) (x : 'I_3) : bool := nth false [:: h0; h1; h2] x.
Definition all_pass (test : 'I_3 -> bool) : rat :=
  probability (fun j => all test (pair_siblings j)) pair_drafts.
Definition bound (h0 h1 h2 : bool) : rat :=
  1 + (p_row token0 * h0%:R + p_row token1 * h1%:R + p_row token2 * h2%:R)
  - all_pass (tests h0 h1 h2).
Lemma testsE (H : {set 'I_3}) x :
  (x \in H) = tests (token0 \in H) (token1 \in H) (token2 \in H) x.
Proof.
by case: x => -[|[|[|x]]] lt; [| | |discriminate lt]; congr (_ \in H); apply: val_inj.
Qed.
Lemma insideE (H : {set 'I_3}) : inside pair_siblings pair_drafts H
  = all_pass (tests (token0 \in H) (token1 \in H) (token2 \in H)).
Proof. by apply: eq_expected => j; rewrite (@eq_all _ (mem H) _ (testsE H)). Qed.
Lemma massE (H : {set 'I_3}) : mass p_row H = p_row token0 * (token0 \in H)%:R
  + p_row token1 * (token1 \in H)%:R + p_row token2 * (token2 \in H)%:R.
Proof.
rewrite /mass big_mkcond sum3.
by case: (token0 \in H); case: (token1 \in H); case: (token2 \in H); rewrite ?mulr1 ?mulr0.
Qed.
Lemma boundE (H : {set 'I_3}) : 1 + mass p_row H - inside pair_siblings pair_drafts H
  = bound (token0 \in H) (token1 \in H) (token2 \in H).
Proof. by rewrite insideE massE. Qed.
Lemma bound_least h0 h1 h2 : 3%:Q / 4%:Q <= bound h0 h1 h2.
Proof. by case: h0; case: h1; case: h2; checked. Qed.

(* Recursive rejection of two i.i.d. siblings accepts 3/4, as much as any rule can: the third token
   is all that the siblings are with 1/4, and the target never writes it. *)
Example pair_rule_best : acceptance.accepted pair_siblings pair_drafts pair_rule = 3%:Q / 4%:Q /\
  acceptance.accepted pair_siblings pair_drafts pair_rule <= 3%:Q / 4%:Q.
Proof.
split; first by computed.
have := acceptance.accepted_at_most pair_siblings [set token2] pair_drafts_law pair_rule_law
  pair_rule_follows.
rewrite boundE !in_set1 => /le_trans; apply; checked.
Qed.
Example largest_rate : exists rule : 'I_3 * 'I_3 -> law fractions 'I_3,
  acceptance.follows pair_drafts rule p_row /\
  acceptance.accepted pair_siblings pair_drafts rule = 3%:Q / 4%:Q.
Proof.
have [rule [H [_ ok rate least]]] :=
  acceptance_rate complete3 all_pairs_complete pair_siblings p_is_row pair_is_row.
exists rule; split=> //; rewrite -/pair_drafts in rate least *; rewrite rate.
apply/eqP; rewrite eq_le; apply/andP; split; last by rewrite boundE; exact: bound_least.
by apply: le_trans (least [set token2]) _; rewrite boundE !in_set1; checked.
Qed.
Lemma first_drafted (u x : seq bool) :
  prefix u x -> if u is a :: _ then a \in take 1 x else true.
Proof. by case: u x => [|a u] [|b x] //= /andP[/eqP-> _]; rewrite take0 mem_head. Qed.
(* Token verification of the path of two tokens, as any verifier: 5/6 is both what it accepts first,
   and the bound, 1 + 1/3 - 1/2, for the token `false`. *)
Example accepts_any_first : let some := fun o : seq bool * (emission bool * _) => o.2.1.1 != [::] in
  probability some token_outcome = 5%:Q / 6%:Q /\ probability some token_outcome <= 5%:Q / 6%:Q.
Proof.
move=> some; split; first by computed.
have drafted o : possible token_outcome o ->
    if o.2.1.1 is a :: _ then a \in take 1 o.1 else true.
  by move=> /token_outcome_drafted/first_drafted.
have := accepts_any_at_most (And3 token_outcome_law drafted token_outcome_lossless) [set false].
rewrite /mass big_set1 => /le_trans; apply.
rewrite (eq_probability (e' := fun o => all (pred1 false) (take 1 o.1))); first by checked.
by move=> o; apply: eq_all => x; rewrite /= in_set1.
Qed.

(* The largest flow from two tokens of masses 2/3 and 1/3 into one of two sinks of 1/2; and where
   there is nothing. *)
Definition to_true : {set bool * bool} := [set e | e.2].
Example flow_of_half : exists S : bool -> bool -> rat,
  is_flow (target [::]) (draft [::]) to_true S /\ \sum_i \sum_j S i j = 1 / 2%:Q.
Proof.
have capped (H : {set bool}) : 1 / 2%:Q <= cut (target [::]) (draft [::]) to_true H.
  rewrite /cut [X in X + _]big_mkcond [X in _ + X]big_mkcond !sum_bool.
  have open j : open_to to_true H j = j && ((true \notin H) || (false \notin H)).
    apply/existsP/andP => [[i]|[jt out]].
      by rewrite inE /= => /andP[-> out]; split=> //; case: i out => ->; rewrite ?orbT.
    by case/orP: out => out; [exists true|exists false]; rewrite inE /= jt out.
  by rewrite !open; case: (true \in H); case: (false \in H); checked.
have [S [S_flow value]] :=
  largest_flow (proj1 (target_model [::])) (proj1 (draft_model [::])) capped.
exists S; split=> //; apply/eqP; rewrite eq_le value andbT.
have [S0 S_off _ S_w] := S_flow; rewrite exchange_big sum_bool.
rewrite [X in _ + X]big1 => [|i _]; last by rewrite S_off // inE.
by rewrite addr0; exact: S_w true.
Qed.
Example flow_of_nothing (p w : 'I_0 -> rat) (E : {set 'I_0 * 'I_0}) :
  exists S : 'I_0 -> 'I_0 -> rat, is_flow p w E S /\ 0 <= \sum_i \sum_j S i j.
Proof.
apply: largest_flow => [[]|[]|H] //.
by rewrite /cut !big1 ?addr0 // => -[].
Qed.
