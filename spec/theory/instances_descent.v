(* Instances of the theorems about trees of drafts: recursive rejection, K-SEQ, SpecHub, the greedy
   draft, target first and the naive tree.

   Three tokens, with a tie in the target, p = (1/2, 1/2, 0), and the draft's likeliest token
   without a chance, q = (1/4, 1/4, 1/2); after the first token the supports are disjoint. Three
   siblings drawn without replacement exhaust a draft of two tokens. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent rejection k_seq spechub greedy_draft.
From Draftproof Require Import target_first instances.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Notation tokens3 := (ordinal_eqType 3).
Notation iid := (@draw_iid fractions tokens3 vocabulary3).
Notation siblings_of := (@draw_siblings fractions tokens3 vocabulary3).
Notation rejection_of := (@recursive_rejection fractions tokens3 vocabulary3).

(* ------------------------------------------------------------------------ recursive rejection *)
Definition replacing : law fractions (seq 'I_3 * ('I_3 * bool)) :=
  position (iid q_row 2) (fun s => rejection_of true s p_row q_row).

(* 3/4 of all is accepted, in proportion to the target. *)
Example accepted_replacing : accepted token0 replacing = 3%:Q / 8%:Q.
Proof.
rewrite (accepted_with_replacement complete3 token0 2 p_is_row q_is_row).
by rewrite /= !sum3; computed.
Qed.
Example drafted_twice : drafted token0 (iid q_row 2) = 7%:Q / 16%:Q.
Proof. by rewrite (drafted_iid complete3 q_is_row); computed. Qed.
Example follows_replacing : probability (fun d => d.2.1 == token0) replacing = 1 / 2%:Q.
Proof.
have [_ follows] := follows_recursive_rejection complete3 q_is_row true 2 p_is_row.
exact: follows token0.
Qed.
(* Three siblings are asked for, and there are two: the draft's support is exhausted. What is left
   is the target's token that is never drafted. *)
Example follows_exhausted : probability (fun d => d.2.1 == token2)
  (position (siblings_of false p_row 3) (fun s => rejection_of false s q_row p_row)) = 1 / 2%:Q.
Proof.
have [_ follows] := follows_recursive_rejection complete3 p_is_row false 3 q_is_row.
exact: follows token2.
Qed.
Definition tree (scheme : ('I_3 -> rat) -> nat -> law fractions (seq 'I_3))
    (choose : rule fractions tokens3) : law fractions (emission 'I_3) :=
  @descend fractions tokens3 vocabulary3 target3 draft3
    (on_demand scheme (fun=> 3%N) draft3) choose 2 [::].
Notation text3 := [:: token0; token2; token1].
Example rejection_writes :
  writes target3 text3 (tree (siblings_of false) (rejection_of false)) = 1 / 4%:Q.
Proof.
have [_ _ lossless] := recursive_rejection_lossless complete3 false (fun=> 3%N) 2 target3_model
  draft3_model.
by rewrite /tree lossless; computed.
Qed.

(* The siblings in turn, from any rows: here the draft's, and then the target's own. *)
Definition other_rows (drawn : seq 'I_3) : 'I_3 -> rat := if drawn is [::] then q_row else p_row.
Lemma other_rows_row drawn : is_row (other_rows drawn).
Proof. by case: drawn => [|a s]; [exact: q_is_row|exact: p_is_row]. Qed.
Lemma other_rows_drawn drawn (f : 'I_3 -> rat) :
  expected f (@draw fractions _ vocabulary3 (other_rows drawn)) = \sum_x other_rows drawn x * f x.
Proof. exact: (expected_draw_row complete3 f (other_rows_row drawn)). Qed.
Lemma other_rows_law drawn : is_law (@draw fractions _ vocabulary3 (other_rows drawn)).
Proof. exact: (law_draw_row complete3 (other_rows_row drawn)). Qed.
Lemma other_rows_some drawn x :
  possible (@draw fractions _ vocabulary3 (other_rows drawn)) x -> other_rows drawn x != 0.
Proof.
move=> /possible_draw; rewrite (normalisedE complete3).
by have [_ ->] := other_rows_row drawn; rewrite divr1.
Qed.
Notation drawn_by_turns := (@one_by_one fractions tokens3 vocabulary3 other_rows xpredT).
Notation tried_by_turns := (@try_siblings fractions tokens3 vocabulary3 other_rows).
Example token_by_turns : expected (fun s => probability (fun c => c.1 == token1)
  (tried_by_turns [::] s p_row)) (drawn_by_turns 2 [::]) = 1 / 2%:Q.
Proof.
by rewrite (token_in_turn complete3 (fun d _ => other_rows_row d)
  (fun d f _ => other_rows_drawn d f) (fun d _ => other_rows_law d) 2 [::] token1 p_is_row);
  computed.
Qed.
Example follows_by_turns : probability (fun d => d.2.1 == token1)
  (position (drawn_by_turns 2 [::]) (fun s => tried_by_turns [::] s p_row)) = 1 / 2%:Q.
Proof.
have [_ follows] := @follows_in_turn _ _ _ complete3 other_rows other_rows xpredT
  (fun d _ => other_rows_row d) (fun d f _ => other_rows_drawn d f) (fun d _ => other_rows_law d)
  (fun d x _ => @other_rows_some d x) 2 p_row p_is_row.
exact: follows token1.
Qed.

(* -------------------------------------------------------------------------- down a tree *)
(* No rule accepts the first token more often than it is drafted, with 7/16 here. *)
Example accepted_replacing_at_most : accepted token0 replacing <= 7%:Q / 16%:Q.
Proof.
have most := descent.accepted_at_most token0 (law_draw_iid complete3 q_is_row 2)
  (fun s => @law_recursive_rejection _ _ _ complete3 _ q_is_row true 2 s _ p_is_row)
  (follows_recursive_rejection complete3 q_is_row true 2 p_is_row)
  (@recursive_rejection_drafted _ _ _ true p_row q_row).
by apply: le_trans most _; rewrite drafted_twice; checked.
Qed.
(* A rule that is right where it can be asked at all: it is asked with the one sibling that a
   context has for sure, and goes on if that is also the target's token. *)
Notation first_sibling := (fun h : history tokens3 => ret fractions [:: token0]).
Notation by_target := (@target_first.target_first fractions tokens3 vocabulary3).
Lemma by_target_sound h : reachable target3 draft3 first_sibling by_target h -> (size h < 2)%N ->
  follows (target3 (node h)) (decide (N := fractions) target3 draft3 first_sibling by_target h).
Proof.
move=> _ _; apply: (follows_target_first complete3); first exact: law_ret.
exact: target3_model.
Qed.
Definition by_target_kept (z : seq 'I_3) (a : 'I_3) : rat := target3 z a * (a == token0)%:R.
Lemma by_target_keeps h a : reachable target3 draft3 first_sibling by_target h ->
  (size h < 2)%N -> accepted a (decide (N := fractions) target3 draft3 first_sibling by_target h)
  = by_target_kept (node h) a.
Proof.
move=> _ _; rewrite (accepted_target_first complete3 a _ _ (target3_model (node h))).
by rewrite /drafted /probability expected_ret inE.
Qed.
Definition by_target2 : law fractions (emission 'I_3) :=
  @descend fractions tokens3 vocabulary3 target3 draft3 first_sibling by_target 2 [::].
Example descends_as_law : is_law by_target2.
Proof. exact: (law_descend complete3 target3_model by_target_sound). Qed.
Example descent_balances :
  accepts [:: token0] by_target2 + ends [::] token0 by_target2 = 1 / 2%:Q.
Proof.
have balances := descend_balanced complete3 target3_model by_target_sound.
by rewrite (balances [::] token0); computed.
Qed.
Example descent_writes : writes target3 text3 by_target2 = 1 / 4%:Q.
Proof. by rewrite (descend_lossless complete3 target3_model by_target_sound); computed. Qed.
Example descent_accepts : accepts [:: token0] by_target2 = 1 / 2%:Q.
Proof.
by rewrite (accepts_descend complete3 target3_model by_target_sound by_target_keeps); computed.
Qed.
Example descent_ends : ends [:: token0] token2 by_target2 = 1 / 2%:Q.
Proof. by rewrite (ends_descend complete3 target3_model by_target_sound); computed. Qed.
(* The same of a tree that grows on demand, for a rule that is right with any number of siblings. *)
Lemma rejection_sound : sound_rule (siblings_of false) (rejection_of false).
Proof.
move=> width r d r_row d_row.
exact: (follows_recursive_rejection complete3 d_row false width r_row).
Qed.
Example growing_writes :
  writes target3 text3 (tree (siblings_of false) (rejection_of false)) = 1 / 4%:Q.
Proof.
have [_ _ lossless] := growing_lossless complete3 (fun=> 3%N) 2 rejection_sound target3_model
  draft3_model.
by rewrite /tree lossless; computed.
Qed.
