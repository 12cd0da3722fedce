(* Instances of the theorems about selections whose law is computable along the path.

   Three tokens, two drafts of two tokens, and the two worlds of the theorems: the target tosses a
   coin between 0 and 1 and then writes 2; the draft goes on as the target does after the good
   token, which is 0 in the one world and 1 in the other. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission block descent selection instances off_the_path.
From Draftproof Require greedy_block scored.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Notation all3 := off_the_path.all_tokens3.
Notation target := off_the_path.target.
Notation draft := off_the_path.draft.
Notation target_ok := off_the_path.target_model.
Notation draft_ok := off_the_path.draft_model.
Notation two := (isT : (0 < 2)%N).
Notation kernel := (law fractions (seq 'I_3 * (emission 'I_3 * (seq 'I_3 -> 'I_3 -> rat)))).

(* ------------------------------------------------------------------- the path of smallest score *)
Notation smallest := (by_scores tokens3 2 (@least fractions)).
Notation least0 := (@scored.least_ge0 rat_realFieldType).
Lemma smallest_selects : is_selection tokens3 2 2 smallest.
Proof. exact: (by_scores_selects all3 two least0). Qed.
Lemma smallest_along : along_the_path tokens3 2 2 smallest.
Proof. exact: (by_scores_along all3 two least0). Qed.

(* It starts with 0 with 3/8, in both worlds. *)
Example starts_in_one_world :
  probability (prefix [:: off_the_path.token0]) (picked tokens3 2 2 smallest target (draft true))
  = 3%:Q / 8%:Q.
Proof.
have -> : picked tokens3 2 2 smallest target (draft true) =
  @scored.selected fractions _ tokens3 (@least fractions) target (draft true) 2 2 by [].
rewrite (scored.selected_scored_starts all3 target_ok (draft_ok true) two least0).
by computed.
Qed.
Example starts_in_the_other :
  probability (prefix [:: off_the_path.token0]) (picked tokens3 2 2 smallest target (draft false))
  = 3%:Q / 8%:Q.
Proof.
rewrite -starts_in_one_world; apply: (picked_starts all3 smallest_selects smallest_along) => //;
  try exact: target_ok; try exact: draft_ok.
by case.
Qed.

(* Verified as a block it accepts 18/16 tokens in both, the most in the mean. *)
Definition verified (world : bool) : kernel :=
  block_of_picked tokens3 2 2 smallest target (draft world)
    (@scored.scored fractions _ tokens3 (@least fractions) target (draft world) 2).
Example verified_length world : length (verified world) = 18%:Q / 16%:Q.
Proof. by case: (three_tokens_scored world). Qed.
Example verified_mean : (length (verified true) + length (verified false)) / 2%:Q <= 18%:Q / 16%:Q.
Proof.
apply: (three_tokens_along smallest_selects smallest_along) => world.
by case: (three_tokens_scored world).
Qed.

(* ---------------------------------------------------------------- the path of highest rank *)
(* Both tokens of the target have one ratio, so that the later one ranks higher: where 1 is good,
   this accepts the most, 19/16, and where it is bad, 17/16. *)
Notation by_ratio3 := (fun p q => in_order (@by_ratio fractions _ tokens3 p q)).
Notation highest_path := (by_rank by_ratio3 2).
Definition rows_of (world : bool) : seq 'I_3 -> 'I_3 -> rat :=
  @skewed fractions _ tokens3 (by_ratio3 target (draft world)) (draft world) 2.
Lemma strict_ratio world : strict (draft world) (by_ratio3 target (draft world)).
Proof. by apply: (strict_by_ratio all3) => z a; case: (draft_ok world z). Qed.
Lemma rows_model world : is_model (rows_of world).
Proof. exact: (skewed_model all3 (draft_ok world)). Qed.
Lemma highest_path_selects : is_selection tokens3 2 2 highest_path.
Proof. exact: (by_rank_selects all3 two). Qed.
Lemma highest_path_rows world :
  selects tokens3 (rows_of world) 2 (picked tokens3 2 2 highest_path target (draft world)).
Proof. exact: (selected_skewed all3 (draft_ok world) (@strict_ratio world) two 2). Qed.
Definition ranked (world : bool) : kernel :=
  block_of_picked tokens3 2 2 highest_path target (draft world) (rows_of world).
Example ranked_verifies world : verifies (picked tokens3 2 2 highest_path target (draft world))
  (fun x u => prefix u x) target (ranked world).
Proof.
exact: (picked_verifies all3 highest_path_selects target_ok (draft_ok world) (@rows_model world)
  (@highest_path_rows world)).
Qed.
Example ranked_length world :
  length (ranked world) = if world then 17%:Q / 16%:Q else 19%:Q / 16%:Q.
Proof.
rewrite (block_of_picked_length (@highest_path_rows world)).
rewrite (block_length3 target_ok (@rows_model world)) !off_the_path.sum3.
by case: (world); computed.
Qed.
Example ranked_sum : length (ranked true) + length (ranked false) <= 9%:Q / 4%:Q.
Proof.
have along : along_the_path tokens3 2 2 highest_path.
  exact: (@by_ratio_along rat_realFieldType three tokens3 2 2 all3 two).
have := along_at_most all3 (isT : off_the_path.token0 != off_the_path.token1) target_ok
  (draft_ok true) target_ok (draft_ok false) (fun=> erefl) (fun=> erefl) (worlds_fork true)
  (worlds_fork false) highest_path_selects along (ranked_verifies true) (ranked_verifies false).
by move/le_trans; apply; computed.
Qed.
(* A rank that does not look at the models is computable along the path as well. *)
Definition by_token : rule rat_realFieldType three := by_rank (fun _ _ _ a => nat_of_ord a) 2.
Example by_token_along : along_the_path tokens3 2 2 by_token.
Proof.
apply: (by_rank_along all3 two) => // p q _ _.
by apply: strict_injective => z; exact: val_inj.
Qed.

(* ------------------------------------------------------------------------ what all paths allow *)
Definition all_seen (world : bool) :
    law fractions (seq (seq 'I_3) * (emission 'I_3 * (seq 'I_3 -> 'I_3 -> rat))) :=
  block_of_drafts tokens3 2 2 highest_path target (draft world) (rows_of world).
Example all_seen_verifies world : verifies (drafts tokens3 2 2 (draft world))
  (fun xs u => has (prefix u) xs) target (all_seen world).
Proof.
exact: (drafts_verifies all3 highest_path_selects target_ok (draft_ok world) (@rows_model world)
  (@highest_path_rows world)).
Qed.
Example all_seen_most world : length (all_seen world) <= 19%:Q / 16%:Q.
Proof. exact: three_tokens_optimum (all_seen_verifies world). Qed.
(* The same bound from the general theorem. *)
Example all_seen_general : length (all_seen true) <= 3%:Q / 4%:Q + 7%:Q / 16%:Q.
Proof.
apply: le_trans (fork_optimum all3 (draft_ok true) (isT : good true != good false)
  (worlds_fork true) (all_seen_verifies true)) _.
by computed.
Qed.
Example most_reached : exists2 m : law fractions (seq (seq 'I_3) * (emission 'I_3 * _)),
  verifies (drafts tokens3 2 2 (draft true)) (fun xs u => has (prefix u) xs) target m
  & length m = 19%:Q / 16%:Q.
Proof. exact: (three_tokens_reached true). Qed.
