(* Instances of the theorems about the share of the optimum that a rule along the path can keep.

   Two drafts of two tokens, over two tokens with zeros and disjoint supports, as in `instances`. At
   first M is 2/3 and 1/3: the smallest half of the scores goes to both tokens in this proportion.
   And over three tokens, of which the target wants two and the draft mostly the third: M is 1/2 for
   each of the two, and the rule keeps 3/4 of it: exactly the share that the theorems promise. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent block selection mixed instances scored.
From Draftproof Require Import guarantee instances_scored.
From Draftproof Require greedy_block off_the_path.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Example half_of_two_paths : certain_share [realFieldType of rat] 2 = 3%:Q / 4%:Q /\
  2%:R^-1 <= certain_share [realFieldType of rat] 2.
Proof. by split; [computed|apply: certain_share_half]. Qed.

(* ------------------------------------------------------------------------- the selected path *)
Local Notation even_scores2 := (@even_scores fractions _ vocabulary target draft 2 kept).
Local Notation evened2 := (@evened fractions _ vocabulary target draft 2 kept).
Local Notation even_selected2 := (@even_selected fractions _ vocabulary target draft 2 kept 2).
Local Notation even_block2 := (@even_multipath_block fractions _ vocabulary target draft 2 2).
Local Notation even_greedy2 := (@even_greedy_block fractions _ vocabulary target draft 2 2).
Local Notation most2 := (@most fractions _ target draft 2).

Example most_of_false_true : most2 [:: false; true] = 2%:Q / 9%:Q.
Proof. by computed. Qed.
Example value_of_true : value 2 (even_scores2 [:: true]) = 7%:Q / 12%:Q.
Proof. by computed. Qed.
Example value_of_true_is_certain : 3%:Q / 4%:Q * (2%:Q / 3%:Q) <= value 2 (even_scores2 [:: true]).
Proof. by computed. Qed.
(* The rows after `true` are not read for what follows `false`. *)
Definition other (z : seq bool) : bool -> rat := if last false z then draft z else target z.
Example same_scores : @even_known fractions _ vocabulary target draft 2 kept [:: false; true] =
  @even_known fractions _ vocabulary other draft 2 kept [:: false; true].
Proof.
apply: even_known_along => y.
by case: y => [|[] [|[] [|? ?]]] //=; rewrite ?andbF //= => _ _; split.
Qed.
Example rule_is_fair : \sum_a measured (one_each (R := rat_realFieldType))
    (even_scores2 (rcons [:: true] a)) = 1 / 2%:Q.
Proof.
have [_ _ shared _] := even_fair complete target_model draft_model two_paths (@least_ge0 _).
by rewrite shared; [rewrite -reachE; computed|exact: fair_one].
Qed.
(* The smallest quarter of all scores of `true`. *)
Example smallest_of_true : 3%:Q / 4%:Q * 2%:R * (1 / 4%:Q) <=
  value 2 (cut (even_scores2 [:: true]) (1 / 4%:Q)).1.
Proof.
have -> : 3%:Q / 4%:Q = certain_share rat_realFieldType 2 by computed.
apply: (even_smallest complete target_model draft_model two_paths (@least_ge0 _)
  (@least_allowed _)).
by computed.
Qed.
Example evened2_model : is_model evened2.
Proof. exact: (evened_model complete target_model draft_model two_paths (@least_ge0 _)). Qed.
Example even_selected2_selects :
  probability (pred1 [:: false; true]) even_selected2 = 17%:Q / 72%:Q.
Proof.
rewrite /probability (selected_evened complete target_model draft_model two_paths (@least_ge0 _)).
by computed.
Qed.
Example even_selected2_is_law : is_law even_selected2.
Proof. exact: (selected_evened_law complete target_model draft_model two_paths (@least_ge0 _)). Qed.
Example even_selected2_starts : probability (prefix [:: true]) even_selected2 = 7%:Q / 12%:Q.
Proof.
have [-> _] := selected_evened_starts complete target_model draft_model two_paths (@least_ge0 _)
  (@least_allowed _) (isT : (size [:: true] <= 2)%N).
by computed.
Qed.

(* -------------------------------------------------------------------------- block verification *)
Example even_known_of_both :
  (@even_known fractions _ vocabulary target draft 2 kept [:: false; true]).2 = 2%:Q / 9%:Q.
Proof. by rewrite (even_known_most complete target_model draft_model two_paths); computed. Qed.
Example even_block2_first : probability (prefix [:: true] \o fst) even_block2 = 7%:Q / 12%:Q.
Proof.
by rewrite /probability (even_multipath_block_outcome complete target_model draft_model two_paths);
  computed.
Qed.
Example even_block2_accepts : accepts [:: false; true] even_block2 = 2%:Q / 9%:Q.
Proof.
by rewrite (even_multipath_block_accepts complete target_model draft_model two_paths); computed.
Qed.
Example even_block2_is_law : is_law even_block2.
Proof. exact: (even_multipath_block_law complete target_model draft_model two_paths). Qed.
Example even_block2_writes :
  writes target [:: false; true; false; false] even_block2 = 2%:Q / 27%:Q.
Proof.
by rewrite (even_multipath_block_lossless complete target_model draft_model two_paths); computed.
Qed.
Example even_block2_keeps : 1 / 2%:Q <= accepts [:: true] even_block2.
Proof.
have -> : 1 / 2%:Q = certain_share rat_realFieldType 2 * most2 [:: true] by computed.
exact: (even_multipath_block_keeps complete target_model draft_model two_paths
  (isT : (size [:: true] <= 2)%N)).
Qed.
Lemma sum_most2 : \sum_(i < 2) \sum_(x : i.+1.-tuple bool) most2 x = 4%:Q / 3%:Q.
Proof. by rewrite (sum_texts (fun x => most2 x)); computed. Qed.
Example even_block2_length : 1 <= expected (fun e => (size e.1)%:R) even_block2.
Proof.
have kept_length := even_multipath_block_length complete target_model draft_model two_paths 2.
by rewrite sum_most2 in kept_length; apply: le_trans kept_length; computed.
Qed.

(* ------------------------------------------------------------------- greedy block verification *)
Example even_known_of_text :
  (@even_known fractions _ vocabulary target draft 2 all_of_it [:: true; false]).2 = 2%:Q / 3%:Q.
Proof. by rewrite even_known_text; computed. Qed.
Example even_greedy2_is_law : is_law even_greedy2.
Proof. exact: (even_greedy_block_law complete target_model draft_model two_paths). Qed.
Example even_greedy2_writes : writes (@greedy_block.modified fractions _ vocabulary target
    (@evened fractions _ vocabulary target draft 2 all_of_it) 2)
  [:: false; true; false; false] even_greedy2 = 2%:Q / 27%:Q.
Proof.
by rewrite (even_greedy_block_lossless complete target_model draft_model two_paths); computed.
Qed.
Example even_greedy2_keeps : 1 / 2%:Q <= accepts [:: true] even_greedy2.
Proof.
have -> : 1 / 2%:Q = certain_share rat_realFieldType 2 *
    Num.min (text (N := fractions) target [::] [:: true])
      (2%:R * text (N := fractions) draft [::] [:: true]) by computed.
exact: (even_greedy_block_keeps complete target_model draft_model two_paths
  (isT : (size [:: true] <= 2)%N)).
Qed.
Lemma sum_shared2 : \sum_(i < 2) \sum_(x : i.+1.-tuple bool)
  Num.min (text (N := fractions) target [::] x) (2%:R * text (N := fractions) draft [::] x)
  = 4%:Q / 3%:Q.
Proof.
rewrite (sum_texts (fun x => Num.min (text (N := fractions) target [::] x)
  (2%:R * text (N := fractions) draft [::] x))).
by computed.
Qed.
Example even_greedy2_length : 1 <= expected (fun e => (size e.1)%:R) even_greedy2.
Proof.
have kept_length := even_greedy_block_length complete target_model draft_model two_paths 2.
by rewrite sum_shared2 in kept_length; apply: le_trans kept_length; computed.
Qed.

(* --------------------------------------------------------------- what no verifier can do better *)
Example some_draft_starts :
  probability (has (prefix [:: false; true]))
    (@off_the_path.drafts rat_realFieldType _ vocabulary 2 2 draft) = 7%:Q / 16%:Q.
Proof. by rewrite (any_draft_starts complete draft_model); computed. Qed.
Example rule_selects : off_the_path.is_selection vocabulary 2 2 (by_evenly vocabulary 2 kept) /\
  off_the_path.along_the_path vocabulary 2 2 (by_evenly vocabulary 2 kept).
Proof.
split; first exact: (by_evenly_selects complete two_paths (@least_ge0 _)).
exact: (by_evenly_along complete two_paths (@least_ge0 _)).
Qed.

(* The rule with block verification is such a verifier, and keeps the target. *)
Definition even_block_seen :=
  @even_block_outcome rat_realFieldType _ vocabulary 2 target draft 2.
Lemma even_block_verifies : [/\ verifies_drafts vocabulary target draft 2 2 even_block_seen,
    keeps_target target even_block_seen
  & off_the_path.length even_block_seen = expected (fun e => (size e.1)%:R) even_block2].
Proof.
have [verifies keeps same] := even_block_is_one complete two_paths 2 target_model draft_model.
by split; [exact: verifies|exact: keeps|exact: (same (fun e => (size e.1)%:R))].
Qed.
Example at_most_for_both : probability (fun o => prefix [:: false; true] o.2.1.1) even_block_seen
  <= 2%:Q / 9%:Q.
Proof.
have [verifies keeps _] := even_block_verifies; rewrite -most_of_false_true.
exact: (keeping_at_most complete target_model draft_model verifies [:: false; true] keeps).
Qed.
Example at_most_in_all : off_the_path.length even_block_seen <= 4%:Q / 3%:Q.
Proof.
have [verifies keeps _] := even_block_verifies; rewrite -sum_most2.
exact: (keeping_length complete target_model draft_model verifies keeps).
Qed.
Example at_least_three_quarters : 3%:Q / 4%:Q * off_the_path.length even_block_seen
  <= expected (fun e => (size e.1)%:R) even_block2.
Proof.
have [verifies keeps _] := even_block_verifies.
have -> : 3%:Q / 4%:Q = certain_share rat_realFieldType 2 by computed.
exact: (even_multipath_block_share complete target_model draft_model verifies two_paths keeps).
Qed.

Definition even_greedy_seen :=
  @even_greedy_outcome rat_realFieldType _ vocabulary 2 target draft 2.
Lemma even_greedy_verifies : verifies_drafts vocabulary target draft 2 2 even_greedy_seen /\
  off_the_path.length even_greedy_seen = expected (fun e => (size e.1)%:R) even_greedy2.
Proof.
have [verifies same] := even_greedy_is_one complete two_paths 2 target_model draft_model.
by split; [exact: verifies|exact: (same (fun e => (size e.1)%:R))].
Qed.
Example at_most_shared : probability (fun o => prefix [:: false; true] o.2.1.1) even_greedy_seen
  <= 2%:Q / 9%:Q.
Proof.
have [verifies _] := even_greedy_verifies.
have bound := leaving_at_most complete draft_model verifies [:: false; true].
by apply: le_trans bound _; computed.
Qed.
Example at_most_shared_in_all : off_the_path.length even_greedy_seen <= 4%:Q / 3%:Q.
Proof.
have [verifies _] := even_greedy_verifies; rewrite -sum_shared2.
exact: (leaving_length complete draft_model verifies).
Qed.
Example at_least_three_quarters_of_shared :
  3%:Q / 4%:Q * off_the_path.length even_greedy_seen
  <= expected (fun e => (size e.1)%:R) even_greedy2.
Proof.
have [verifies _] := even_greedy_verifies.
have -> : 3%:Q / 4%:Q = certain_share rat_realFieldType 2 by computed.
exact: (even_greedy_block_share complete target_model draft_model verifies two_paths).
Qed.

(* Three tokens: exactly the share of all M is kept. *)
Lemma sum_tokens3 (f : seq 'I_3 -> rat) : \sum_(i < 1) \sum_(x : i.+1.-tuple 'I_3) f x =
  f [:: token0] + f [:: token1] + f [:: token2].
Proof.
rewrite big_ord_recl big_ord0 addr0 (reindex (fun a => [tuple a])) ?sum3 //.
exists (fun x => thead x) => [a _|x _]; first by [].
by apply: val_inj; case: x => -[|a [|b x]].
Qed.
Example most_of_three :
  \sum_(i < 1) \sum_(x : i.+1.-tuple 'I_3) most (N := fractions) target3 draft3 2 x = 1.
Proof. by rewrite (sum_tokens3 (fun x => most (N := fractions) target3 draft3 2 x)); computed. Qed.
Example kept_of_three : expected (fun e => (size e.1)%:R)
    (@even_multipath_block fractions _ vocabulary3 target3 draft3 2 1) = 3%:Q / 4%:Q.
Proof.
rewrite (even_multipath_block_outcome complete3 target3_model draft3_model two_paths).
rewrite (block.block_length complete3 target3_model
  (evened_model complete3 target3_model draft3_model two_paths (@least_ge0 _))).
by rewrite (sum_tokens3 (fun x => kept_mass (N := fractions) _ _ x [::] 1)); computed.
Qed.
