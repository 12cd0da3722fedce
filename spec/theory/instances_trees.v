(* Instances of the theorems about trees of drafts that `instances_descent` and `instances_rules` do
   not have: traversal verification, sampling, what a rule may accept, and K-SEQ, target first and
   the naive tree where the widths of a tree depend on its history.

   Two tokens, where after `true` the draft has nothing of the target's; and three, p = (1/2, 1/2, 0)
   and q = (1/4, 1/4, 1/2), where the draft's likeliest token has no chance. Three siblings drawn
   without replacement exhaust a draft of two tokens, or of one. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission sampling descent rejection k_seq greedy_draft.
From Draftproof Require Import target_first traversal.
From Draftproof Require block.
From Draftproof Require Import instances.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Notation tokens3 := (ordinal_eqType 3).
Notation siblings2 := (@draw_siblings fractions bool_eqType vocabulary).
Notation siblings3 := (@draw_siblings fractions tokens3 vocabulary3).
Notation iid3 := (@draw_iid fractions tokens3 vocabulary3).

(* ----------------------------------------------------------------------- traversal verification *)
(* Three siblings are asked for at every node: the first node has two, and the next have one. *)
Definition tree2 : history bool_eqType -> law fractions (seq bool) :=
  growing (siblings2 false) (fun=> 3%N) draft.
Definition kept2 := @kept fractions bool_eqType vocabulary target draft tree2.
Definition traversal2 : law fractions (emission bool) :=
  @traversal fractions bool_eqType vocabulary target draft tree2 2.
Lemma tree2_in_turn (h : history bool_eqType) : drawn_in_turn vocabulary (draft (node h)) (tree2 h).
Proof. exact: (siblings_in_turn complete false _ (draft_model (node h))). Qed.
Lemma third01 : 0 <= (1 / 3%:Q : rat) <= 1. Proof. by checked. Qed.

(* Below a node of weight 1/3 something is kept with 1/3; then 2/3 * 1 is the target's. *)
Definition after_false : history bool_eqType := [:: ([:: true; false], false)].
Example kept_third : expected missing (kept2 1 after_false (1 / 3%:Q)) = 2%:Q / 3%:Q.
Proof.
rewrite (kept_weight complete target_model draft_model tree2_in_turn 1 after_false third01).
by computed.
Qed.
Example kept_begins_third :
  expected (begins_at target [:: false] [:: true; false]) (kept2 1 after_false (1 / 3%:Q))
  = 2%:Q / 9%:Q.
Proof.
have := kept_begins complete target_model draft_model tree2_in_turn 1 after_false.
by move=> /(_ _ [:: true; false] third01) ->; computed.
Qed.
Example traversal_is_law : is_law traversal2.
Proof. exact: (traversal_law complete target_model draft_model tree2_in_turn). Qed.
Example traversal_writes : writes target [:: false; true; false] traversal2 = 2%:Q / 9%:Q.
Proof.
by rewrite (traversal_lossless complete target_model draft_model tree2_in_turn); computed.
Qed.
Example traversal_balances :
  accepts [:: false; true] traversal2 + ends [:: false] true traversal2 = 2%:Q / 9%:Q.
Proof.
have balances := traversal_balanced complete target_model draft_model tree2_in_turn 2.
by rewrite (balances [:: false] true); computed.
Qed.
(* With replacement, siblings repeat tokens; the tree has no more than two children at any node. *)
Example growing_traversal_writes :
  writes target [:: false; true; false] (@traversal fractions bool_eqType vocabulary target draft
    (growing (siblings2 true) (fun=> 2%N) draft) 2) = 2%:Q / 9%:Q.
Proof.
have [_ _ lossless] :=
  growing_traversal_lossless complete true (fun=> 2%N) 2 target_model draft_model.
by rewrite lossless; computed.
Qed.

(* Siblings as verification wants them: independent ones until one is drawn a second time; and
   without replacement. Before the second token come the first, with 1/4, and another after it. *)
Notation until_twice :=
  (@one_by_one fractions tokens3 vocabulary3 (fun=> q_row) (fun drawn => uniq drawn)).
Definition begin_with (first : seq 'I_3) (m : law fractions (seq 'I_3)) : rat :=
  probability (fun s => prefix first (children s)) m.
Lemma until_twice_in_turn width : drawn_in_turn vocabulary3 q_row (until_twice width [::]).
Proof.
apply: (one_by_one_in_turn complete3 (share := fun=> 1)) => [d _||d x _ _].
- exact: (law_draw_row complete3 q_is_row).
- by case: q_is_row.
by rewrite (normalisedE complete3); case: q_is_row => _ ->; rewrite divr1 mul1r.
Qed.
Example first_and_second : begin_with [:: token0; token1] (until_twice 3 [::]) = 1 / 16%:Q.
Proof.
by rewrite /begin_with (proj2 (until_twice_in_turn 3) [:: token0] token1); computed.
Qed.
Example first_and_third : begin_with [:: token0; token2] (siblings3 false q_row 2) = 1 / 6%:Q.
Proof.
have [_ in_turn] := siblings_in_turn complete3 false 2 q_is_row.
by rewrite /begin_with (in_turn [:: token0] token2); computed.
Qed.
(* Three are asked for, and two can be drawn. *)
Example no_third : begin_with [:: token0; token1; token2] (siblings3 false p_row 3) = 0.
Proof.
have [_ in_turn] := siblings_in_turn complete3 false 3 p_is_row.
by rewrite /begin_with (in_turn [:: token0; token1] token2); computed.
Qed.

(* One path is block verification; one position without replacement is recursive rejection. *)
Example one_path_ends : ends [:: true] false (@traversal fractions bool_eqType vocabulary target
  draft (growing (siblings2 true) (fun=> 1%N) draft) 2) = 1 / 2%:Q.
Proof.
rewrite (one_path_block complete true target_model draft_model).
by computed.
Qed.
Definition one_position (f : emission 'I_3 -> rat) : rat :=
  expected f (@traversal fractions tokens3 vocabulary3 target3 draft3
    (growing (siblings3 false) (fun=> 2%N) draft3) 1).
Example first_token_accepted : one_position (fun e => (e.1 == [:: token0])%:R) = 1 / 2%:Q.
Proof.
rewrite /one_position (one_position_rejection complete3 _ target3_model draft3_model).
by computed.
Qed.

(* ------------------------------------------------------------------------------------- sampling *)
(* A number on the border of two cells is in the upper one, and an empty cell has none. *)
Definition cells : law fractions bool :=
  [:: (true, 1 / 4%:Q); (true, 0); (false, 1 / 2%:Q); (true, 1 / 4%:Q)].
Example border : outcome_at cells (1 / 4%:Q : rat) = Some false.
Proof.
apply: (@outcome_at_cell _ _ [:: (true, 1 / 4%:Q); (true, 0)] [:: (true, 1 / 4%:Q)] false
  (1 / 2%:Q)).
  by move=> o; apply: (@in_all _ (fun o => 0 <= o.2)); checked.
by checked.
Qed.
Example covered : exists before w after, [/\ cells = before ++ (false, w) :: after,
  weight (N := fractions) before <= (1 / 4%:Q : rat) < weight (N := fractions) before + w
  & outcome_at cells (1 / 4%:Q : rat) = Some false].
Proof.
have [|before [a [w [after [cellsE inside at_mark]]]]] :=
  @outcome_at_covers _ _ cells (1 / 4%:Q); first by checked.
have a_false : a = false := congr1 (odflt a) (etrans (esym at_mark) border).
by subst a; exists before, w, after; split; [exact: cellsE|exact: inside|exact: at_mark].
Qed.
Example two_steps_accept : accepts [:: true] (in_two_steps block2) = 1 / 2%:Q.
Proof.
rewrite /accepts /probability in_two_steps_same; first by computed.
by case: block_is_law.
Qed.
(* At 1/2, the border of an accepted length, two tokens are accepted; and at 0 it is the first such
   emission that is not empty. *)
Definition both : emission bool := ([:: false; true], false).
Lemma two_accepted : outcome_at (lengths block2) (1 / 2%:Q : rat) = Some 2%N.
Proof. by computed. Qed.
Lemma both_emitted : emission_at block2 (1 / 2%:Q : rat) 0 = Some both.
Proof. by computed. Qed.
Lemma half01 : 0 <= (1 / 2%:Q : rat) < 1. Proof. by checked. Qed.
Lemma zero01 : 0 <= (0 : rat) < 1. Proof. by checked. Qed.
Notation weight_of := (@weight fractions (emission bool)).
Example sampled : exists (w : rat) (before after : law fractions (emission bool)),
  of_length 2 block2 = before ++ (both, w) :: after /\
  weight_of before <= (0 : rat) * weight_of (of_length 2 block2) < weight_of before + w.
Proof.
have [n [e [w [before [after [at_n some inside at_e]]]]]] :=
  emission_at_some block_is_law half01 zero01.
have n2 : n = 2%N := congr1 (odflt n) (etrans (esym at_n) two_accepted).
have e_both : e = both := congr1 (odflt e) (etrans (esym at_e) both_emitted).
subst n e; exists w, before, after; split; [exact: some|exact: inside].
Qed.

(* --------------------------------------------------------------------------- what is drafted *)
(* The third token is never a sibling where the draft never writes it. *)
Example never_sibling replaced s : possible (siblings3 replaced p_row 3) s -> token2 \notin s.
Proof.
move=> can; apply/negP => there.
by have /eqP := siblings_probable complete3 p_is_row can there.
Qed.
Example never_twice : ~ possible (siblings3 false q_row 2) [:: token2; token2].
Proof. by move=> /(siblings_differ complete3 q_is_row). Qed.

(* No rule goes on at a token that is no sibling. *)
Notation rejection3 := (@recursive_rejection fractions tokens3 vocabulary3).
Notation first_two := [:: token0; token1].
Definition by_maximum (_ _ : 'I_3 -> rat) (width : nat) : rat := (maxn 1 width)%:R.
Example rejection_drafted replaced : ~ possible (rejection3 replaced first_two q_row p_row)
  (token2, true).
Proof.
by move=> /(@recursive_rejection_drafted _ _ vocabulary3 replaced q_row p_row first_two _)/(_ isT).
Qed.
Example target_first_goes_on :
  ~ possible (@target_first.target_first fractions tokens3 vocabulary3 first_two q_row p_row)
    (token2, true).
Proof. by move=> /(@target_first_drafted _ _ vocabulary3 q_row p_row first_two _)/(_ isT). Qed.
Example naive_tree_goes_on :
  ~ possible (@naive_tree fractions tokens3 vocabulary3 first_two q_row p_row) (token2, true).
Proof. by move=> /(@naive_tree_drafted _ _ vocabulary3 q_row p_row first_two _)/(_ isT). Qed.
Example greedy_draft_goes_on :
  ~ possible (@greedy_draft.greedy_draft fractions tokens3 vocabulary3 first_two q_row p_row)
    (token2, true).
Proof. by move=> /(@greedy_draft_drafted _ _ vocabulary3 q_row p_row first_two _)/(_ isT). Qed.
Example k_seq_goes_on :
  ~ possible (@k_seq.k_seq fractions tokens3 vocabulary3 by_maximum first_two q_row p_row)
    (token2, true).
Proof.
by move=> /(@k_seq_drafted _ _ vocabulary3 by_maximum q_row p_row first_two _)/(_ isT).
Qed.

(* The first token is accepted, and the third is next: the first was drafted at the first node. *)
Definition tree3 : history tokens3 -> law fractions (seq 'I_3) :=
  growing (siblings3 false) (fun=> 3%N) draft3.
Notation reachable3 := (reachable target3 draft3 tree3 (rejection3 false)).
Example first_was_drafted : exists h : history tokens3,
  [/\ reachable3 h, node h = [:: token0] & all (fun step => step.2 \in step.1) h].
Proof.
have can : possible (@descend fractions tokens3 vocabulary3 target3 draft3 tree3 (rejection3 false)
    1 [::]) ([:: token0], token2) by apply: possible_computed; checked.
apply: accepted_were_drafted can => h s chosen _ _; exact: recursive_rejection_drafted.
Qed.
(* After two copies of a node, one sibling for each: the first token is one of them with 7/16. *)
Example drawn_on_demand : drafted token0 (growing iid3 (fun=> 1%N) draft3
  [:: ([:: token1; token1], token1)]) = 7%:Q / 16%:Q.
Proof. by rewrite growing_on_demand; computed. Qed.

(* ---------------------------------------------------------------------- widths by the history *)
(* Three siblings at the first node, and fewer after a token that was drafted more than once. *)
Definition fewer (h : history tokens3) : nat := (3 %/ copies h)%N.
Definition demanded (scheme : ('I_3 -> rat) -> nat -> law fractions (seq 'I_3))
    (choose : rule fractions tokens3) : law fractions (emission 'I_3) :=
  @descend fractions tokens3 vocabulary3 target3 draft3 (on_demand scheme fewer draft3) choose
    2 [::].
Notation naive3 := (@naive_tree fractions tokens3 vocabulary3).
Notation text3 := [:: token0; token2; token1].
Example naive_iid_writes : writes target3 text3 (demanded iid3 naive3) = 1 / 4%:Q.
Proof.
have [_ _ lossless] :=
  naive_tree_iid_lossless complete3 fewer 2 target3_model draft3_model.
by rewrite /demanded lossless; computed.
Qed.
Example naive_without_replacement_writes :
  writes target3 text3 (demanded (@draw_without_replacement fractions tokens3 vocabulary3) naive3)
  = 1 / 4%:Q.
Proof.
have [_ _ lossless] :=
  naive_tree_without_replacement_lossless complete3 fewer 2 target3_model draft3_model.
by rewrite /demanded lossless; computed.
Qed.

(* ---------------------------------------------------------------------------------------- K-SEQ *)
(* Two siblings and the factor 2: 1 - (1 - 1/2)^2 <= 2 * 1/2, and 1/2 - 3/2 * 1/4 is left. *)
Notation rest3 := (@k_seq.rest fractions tokens3 vocabulary3).
Notation is_valid3 := (@is_valid_factor fractions tokens3 vocabulary3).
Lemma two_is_valid : is_valid3 2%:R p_row q_row 2.
Proof. exact: (width_is_valid complete3 p_is_row q_is_row (isT : (0 < 2)%N) (leqnn 2)). Qed.
Example rest_eighth : rest3 2%:R p_row q_row 2 token0 = 1 / 8%:Q /\
  0 <= rest3 2%:R p_row q_row 2 token0.
Proof.
split; first by computed.
by have [_ ge0] := rest_ge0 complete3 p_is_row q_is_row two_is_valid.
Qed.
(* The factor 1 is not valid for two siblings: 1 - (1 - 1/2)^2 > 1/2. So the rest is negative. *)
Example rest_negative : ~ 0 <= rest3 1 q_row p_row 2 token0.
Proof.
move=> ge0; have mass : 0 < q_row token0 <= 1 * p_row token0 by checked.
have : is_valid3 1 q_row p_row 2.
  exact: (rest_needs complete3 q_is_row p_is_row ltr01 (isT : (0 < 2)%N) mass ge0).
by apply/negP; checked.
Qed.
Notation k_seq3 := (@k_seq.k_seq fractions tokens3 vocabulary3).
Example k_seq_constant_writes :
  writes target3 text3 (demanded iid3 (k_seq3 (fun _ _ _ => 3%:R))) = 1 / 4%:Q.
Proof.
have most (h : history tokens3) : reachable target3 draft3 (on_demand iid3 fewer draft3)
    (k_seq3 (fun _ _ _ => 3%:R)) h -> (size h < 2)%N -> (copies h * fewer h <= 3)%N.
  by move=> _ _; rewrite mulnC leq_trunc_div.
have [_ _ lossless] :=
  k_seq_constant_lossless complete3 (isT : (0 < 3)%N) most target3_model draft3_model.
by rewrite /demanded lossless; computed.
Qed.
Example k_seq_width_writes :
  writes target3 text3 (demanded iid3 (k_seq3 by_maximum)) = 1 / 4%:Q.
Proof.
have [_ _ lossless] := k_seq_width_lossless complete3 fewer 2 target3_model draft3_model.
by rewrite /demanded lossless; computed.
Qed.
