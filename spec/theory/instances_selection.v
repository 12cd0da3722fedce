(* Instances of the theorems about selection from several drafts, by rank or mixed.

   Two drafts of two tokens, over two tokens with zeros and disjoint supports, as in `instances`;
   the order of the tokens is the paper's, by p/q. Where two tokens have the same ratio, the
   vocabulary decides: that is computed on the three tokens. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent block selection mixed instances.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ------------------------------------------------------------------------------ the order *)
Lemma draft_ge0 z a : 0 <= draft z a.
Proof. by case: (draft_model z). Qed.
Definition rank2 : seq bool -> bool -> nat :=
  in_order (by_ratio (N := fractions) vocabulary target draft).
Lemma rank2_strict : strict draft rank2.
Proof. exact: (strict_by_ratio complete draft_ge0). Qed.

(* The ratios are 2, 2 and 0: the third token is the lowest, and the first is below the second. *)
Definition rank3 : seq 'I_3 -> 'I_3 -> nat :=
  in_order (by_ratio (N := fractions) vocabulary3 target3 draft3).
Lemma draft3_ge0 z a : 0 <= draft3 z a.
Proof. by case: (draft3_model z). Qed.
Example tie_by_place : (rank3 [::] token0 < rank3 [::] token1)%N.
Proof. by rewrite (by_ratioE complete3 target3 draft3_ge0); checked. Qed.
Example no_tie : ~~ (rank3 [::] token0 < rank3 [::] token2)%N.
Proof. by rewrite (by_ratioE complete3 target3 draft3_ge0); checked. Qed.

(* ------------------------------------------------------------------------ the highest path *)
Definition to_highest : choice fractions bool_eqType := go_to_highest fractions rank2.
Definition highest2 : law fractions (seq bool) :=
  @selected fractions _ vocabulary to_highest draft 2 2.
Definition skewed2 : seq bool -> bool -> rat := @skewed fractions _ vocabulary rank2 draft 2.

(* Both drafts begin with `false` with 1/4, and then at least one goes on with `true`. *)
Example grow_both : probability (prefix [:: false; true])
  (@grow fractions _ vocabulary to_highest draft 2 [::] 2) = 3%:Q / 16%:Q.
Proof. by rewrite /probability (grow_select complete draft_model); computed. Qed.
Example below_true : below vocabulary draft rank2 [:: true] = 1 / 2%:Q.
Proof. by rewrite (belowE complete draft_model rank2 (n := 2)); [computed|]. Qed.
Example skewed2_model : is_model skewed2.
Proof. exact: (skewed_model complete draft_model). Qed.
(* 1 - (1 - 1/2)^2 *)
Example skewed_true : skewed2 [::] true = 3%:Q / 4%:Q.
Proof. by rewrite /skewed2 (skewed_row complete draft_model rank2_strict); [computed|checked]. Qed.
(* Nobody comes to `true, false`, where the draft's own row stays. *)
Example skewed_off_support : skewed2 [:: true; false] true = 1 / 2%:Q.
Proof. by computed. Qed.
Example highest2_selects : probability (pred1 [:: false; true]) highest2 = 3%:Q / 16%:Q.
Proof. by rewrite /probability (selected_skewed complete draft_model rank2_strict); computed. Qed.
Example highest2_starts : probability (prefix [:: false]) highest2 = 1 / 4%:Q.
Proof.
by rewrite (selected_highest_starts complete draft_model rank2_strict); computed.
Qed.

(* The general theorem of selection, with the numbers of paths of the highest. *)
Notation alive2 := (alive vocabulary draft rank2 2).
Lemma alive2_root (k : 'I_2) : alive2 [::] k.+1 = (k.+1 == 2%N)%:R.
Proof. by case: k => -[|[|k]] lt; [computed|computed|discriminate lt]. Qed.
Lemma alive2_next z a : skewed2 z a * (\sum_(k < 2) alive2 z k.+1)
  = \sum_(k < 2) alive2 (rcons z a) k.+1.
Proof. by rewrite !selection.reachE (skewed_next complete draft_model rank2_strict). Qed.
Example alive_selects : probability (pred1 [:: false; true]) highest2 = 3%:Q / 16%:Q.
Proof.
by rewrite /probability (selected_alive complete draft_model (highest_chosen _ rank2) alive2_root
  (selection.alive_next complete draft_model rank2_strict (count := 2)) skewed2_model
  alive2_next); computed.
Qed.
Example alive_starts : \sum_(k < 2) alive2 [:: false] k.+1 = 1 / 4%:Q.
Proof.
have starts := selected_starts complete draft_model (highest_chosen _ rank2) alive2_root
  (selection.alive_next complete draft_model rank2_strict (count := 2)) skewed2_model alive2_next
  isT 2 [:: false].
by transitivity (probability (prefix [:: false]) highest2); [exact: esym starts|computed].
Qed.

(* --------------------------------------------------------- greedy multi-path block verification *)
Definition highest_block2 : law fractions (emission bool) :=
  @multipath_block fractions _ vocabulary rank2 target draft 2 2.

Example multipath_block_length : expected (fun e => (size e.1)%:R) highest_block2 = 55%:Q / 48%:Q.
Proof. by rewrite (multipath_block_outcome complete target draft_model rank2_strict); computed. Qed.
Example multipath_block_accepts_both : accepts [:: false; true] highest_block2 = 1 / 6%:Q.
Proof.
by rewrite (multipath_block_accepts complete target_model draft_model rank2_strict); computed.
Qed.
Example multipath_block_ends_within : ends [:: false] false highest_block2 = 1 / 48%:Q.
Proof.
by rewrite (multipath_block_ends complete target_model draft_model rank2_strict); computed.
Qed.
Example multipath_block_is_law : is_law highest_block2.
Proof. exact: (multipath_block_law complete target_model draft_model rank2_strict). Qed.
Example multipath_block_writes :
  writes target [:: false; true; false; false] highest_block2 = 2%:Q / 27%:Q.
Proof.
by rewrite (multipath_block_lossless complete target_model draft_model rank2_strict); computed.
Qed.
Example multipath_block_balances :
  accepts [:: false; true] highest_block2 + ends [:: false] true highest_block2 = 1 / 6%:Q.
Proof.
have balances := multipath_block_balanced complete target_model draft_model rank2_strict
  (isT : (0 < 2)%N) 2.
by rewrite (balances [:: false] true); computed.
Qed.

(* -------------------------------------------------------------------------- mixed selection *)
(* At first the highest half of the time, and any draft otherwise; then the highest. *)
Definition half : mixture fractions bool_eqType :=
  fun z _ _ _ => if z is [::] then 1 / 2%:Q else 1.
Lemma half01 z owed highest uniform : 0 <= (half z owed highest uniform : rat) <= 1.
Proof. by case: z. Qed.
Definition half_law : seq bool -> bool -> rat :=
  @mixed fractions _ vocabulary rank2 half target draft 2.
Definition half_selected (length : nat) : law fractions (seq bool) :=
  @selected fractions _ vocabulary
    (@highest_or_any fractions _ vocabulary rank2 half target draft 2) draft 2 length.
Definition half_block (length : nat) : law fractions (emission bool) :=
  @mixed_multipath_block fractions _ vocabulary rank2 half target draft 2 length.

Example half_model : is_model half_law.
Proof. exact: (mixed_model complete target draft_model rank2_strict half01). Qed.
(* The mean of 3/4 and 1/2. *)
Example half_selects : probability (pred1 [:: true]) (half_selected 1) = 5%:Q / 8%:Q.
Proof.
by rewrite /probability (selected_mixed complete target draft_model rank2_strict half01); computed.
Qed.
Example half_starts : \sum_(k < 2) nth 0 (@known fractions _ vocabulary rank2 half target draft 2
  [:: true]).2 k.+1 = 5%:Q / 8%:Q.
Proof.
have starts := selected_mixed_starts complete target draft_model rank2_strict half01
  (isT : (0 < 2)%N) 1 [:: true].
by transitivity (probability (prefix [:: true]) (half_selected 1)); [exact: esym starts|computed].
Qed.
Example half_block_length : expected (fun e => (size e.1)%:R) (half_block 1) = 23%:Q / 24%:Q.
Proof.
by rewrite (mixed_multipath_block_outcome complete target draft_model rank2_strict half01);
  computed.
Qed.
Example half_block_accepts_both : accepts [:: false; true] (half_block 2) = 2%:Q / 9%:Q.
Proof.
by rewrite (mixed_multipath_block_accepts complete target_model draft_model rank2_strict half01);
  computed.
Qed.
Example half_block_ends_at_once : ends [::] true (half_block 2) = 1 / 24%:Q.
Proof.
by rewrite (mixed_multipath_block_ends complete target_model draft_model rank2_strict half01);
  computed.
Qed.
Example half_block_is_law : is_law (half_block 2).
Proof.
exact: (mixed_multipath_block_law complete target_model draft_model rank2_strict half01).
Qed.
Example half_block_writes :
  writes target [:: false; true; false; false] (half_block 2) = 2%:Q / 27%:Q.
Proof.
by rewrite (mixed_multipath_block_lossless complete target_model draft_model rank2_strict half01);
  computed.
Qed.
Example half_block_balances :
  accepts [:: true] (half_block 2) + ends [::] true (half_block 2) = 2%:Q / 3%:Q.
Proof.
have balances := mixed_multipath_block_balanced complete target_model draft_model rank2_strict
  half01 (isT : (0 < 2)%N) 2.
rewrite (balances [::] true).
by rewrite (mixed_multipath_block_accepts complete target_model draft_model rank2_strict half01);
  computed.
Qed.

(* The reference's own mixture: two thirds at the root, where the mean of 3/4 and 1/2 with these
   weights is the target's 2/3. Without tokens it is a share as well. *)
Notation most_kept vocabulary :=
  (most_kept_next (N := fractions) vocabulary [::] : (_ -> rat) -> (_ -> rat) -> (_ -> rat) -> rat).
Example most_kept_at_root : let share := most_kept vocabulary (target [::])
    (fun a => if a then 3%:Q / 4%:Q else 1 / 4%:Q) (draft [::]) in
  0 <= share <= 1 /\ share = 2%:Q / 3%:Q.
Proof. by split; [exact: most_kept_share|computed]. Qed.
Example most_kept_of_nothing (none : 'I_0 -> rat) : let share := most_kept [::] none none none in
  0 <= share <= 1 /\ share = 0.
Proof. by split; [exact: most_kept_share|computed]. Qed.
