(* Instances of the theorems about trees that are drawn as a whole, and what happens without their
   premises.

   Three tokens, with a tie in the target, p = (1/2, 1/2, 0); after the first token the supports of
   target and draft are disjoint. The siblings have no law at histories that no tree has; a sibling
   repeats, and some siblings have weight 0. Three siblings drawn without replacement exhaust a
   draft of two tokens. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent rejection target_first whole_tree instances.
From Draftproof Require Import instances_descent.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Notation text3 := [:: token0; token2; token1].
Definition whole (siblings : history tokens3 -> law fractions (seq 'I_3))
    (choose : rule fractions tokens3) : law fractions (emission 'I_3) :=
  @verify_whole fractions tokens3 vocabulary3 target3 draft3 siblings choose 2.
Definition demanded (siblings : history tokens3 -> law fractions (seq 'I_3))
    (choose : rule fractions tokens3) : law fractions (emission 'I_3) :=
  @descend fractions tokens3 vocabulary3 target3 draft3 siblings choose 2 [::].

(* ------------------------------------------------------------------- siblings of another law *)
(* Two different tokens, or one twice; then one more, or two after a token that was drawn twice. *)
Definition once := [:: token0; token1].
Definition twice := [:: token1; token1].
Definition uneven (h : history tokens3) : law fractions (seq 'I_3) :=
  if h is [::] then [:: (once, 1 / 2%:Q); ([:: token2], 0); (twice, 1 / 2%:Q)] else
  if h == [:: (once, token0)] then ret _ [:: token0] else
  if h == [:: (once, token1)] then ret _ [:: token1] else
  if h == [:: (twice, token1)] then ret _ [:: token0; token1] else [::].
Lemma uneven_law h : in_tree uneven h -> (size h < 2)%N -> is_law (uneven h).
Proof.
case=> [_|{}h s a _ drawn a_in]; first by apply: law_computed; checked.
rewrite size_rcons; case: h drawn => [|step h] //= [w s_in w0] _.
move: s_in w0 a_in => [[<- _] _|[[_ <-]|[[<- _] _|[]]]]; first 2 last.
- by rewrite !inE orbb => /eqP ->; apply: law_computed; checked.
- by rewrite !inE => /orP[] /eqP ->; apply: law_computed; checked.
by rewrite eqxx.
Qed.
Lemma by_target_drafted h s (chosen : 'I_3 * bool) :
  reachable target3 draft3 uneven by_target h -> (size h < 2)%N -> possible (uneven h) s ->
  possible (by_target s (target3 (node h)) (draft3 (node h))) chosen -> chosen.2 -> chosen.1 \in s.
Proof. by move=> _ _ _; apply: target_first_drafted. Qed.
Lemma by_target_sound h : reachable target3 draft3 uneven by_target h -> (size h < 2)%N ->
  follows (target3 (node h)) (decide (N := fractions) target3 draft3 uneven by_target h).
Proof.
move=> reached inside; apply: (follows_target_first complete3); last exact: target3_model.
apply: uneven_law => //; exact: (reachable_in_tree by_target_drafted reached (ltnW inside)).
Qed.
(* The second token can be accepted only where the first was drawn twice: 1/2 * 1/2 * 1/2. *)
Example uneven_accepts : accepts [:: token1; token0] (whole uneven by_target) = 1 / 8%:Q.
Proof.
rewrite /accepts /probability (whole_tree_same vocabulary3 uneven_law by_target_drafted).
by computed.
Qed.
Example uneven_sound : [/\ is_law (whole uneven by_target),
  accepts [:: token1] (whole uneven by_target) + ends [::] token1 (whole uneven by_target)
  = 1 / 2%:Q & writes target3 text3 (whole uneven by_target) = 1 / 4%:Q].
Proof.
have [ok balances lossless] := whole_tree_sound uneven_law by_target_drafted complete3
  target3_model by_target_sound.
split; first exact: ok.
  by rewrite (balances [::] token1); computed.
by rewrite lossless; computed.
Qed.

(* ---------------------------------------------------------------------- schemes of siblings *)
(* Two siblings at the first node, then three, or one after each copy of a token drafted twice. *)
Definition fewer (h : history tokens3) : nat := if h is [::] then 2 else (3 %/ copies h)%N.
Notation fewer_of replaced := (on_demand (siblings_of replaced) fewer draft3).
Lemma by_target_sound_rule replaced : sound_rule (siblings_of replaced) by_target.
Proof.
move=> width r d r_row d_row; apply: (follows_target_first complete3) => //.
exact: (law_draw_siblings complete3 d_row).
Qed.
(* The first token is among two i.i.d. draws with 1 - (3/4)^2 = 7/16, and half of the target's. *)
Example target_first_whole :
  accepts [:: token0] (whole (fewer_of true) by_target) = 7%:Q / 32%:Q /\
  writes target3 text3 (whole (fewer_of true) by_target) = 1 / 4%:Q.
Proof.
have [same [_ _ lossless]] := whole_growing_lossless complete3 fewer 2
  (fun width d d_row => law_draw_siblings complete3 d_row true width)
  (fun r d _ _ => @target_first_drafted _ _ vocabulary3 r d) (by_target_sound_rule true)
  target3_model draft3_model.
split; first by rewrite /accepts /probability same; computed.
by rewrite lossless; computed.
Qed.
(* All of the target is accepted at the first node. Below the first token three siblings are asked
   for and the draft has two, of which the target has none. *)
Example rejection_whole : [/\ is_law (whole (fewer_of false) (rejection_of false)),
  ends [:: token0] token2 (whole (fewer_of false) (rejection_of false)) = 1 / 2%:Q
  & writes target3 text3 (whole (fewer_of false) (rejection_of false)) = 1 / 4%:Q].
Proof.
have [same [ok _ lossless]] := recursive_rejection_whole complete3 false fewer 2 target3_model
  draft3_model.
split; [exact: ok|by rewrite /ends /probability same; computed|by rewrite lossless; computed].
Qed.

(* ------------------------------------------------------------------------ without the premises *)
(* A rule that takes the first sibling, or the third token where there is none. *)
Definition take_first : rule fractions tokens3 := fun s _ _ => ret _ (head token2 s, true).
(* It goes on at a token that was not drafted: there the tree has no siblings. *)
Definition late (h : history tokens3) : law fractions (seq 'I_3) :=
  ret _ (if h is [::] then [::] else [:: token0]).
Example not_drafted_differs : accepts [:: token2; token0] (whole late take_first) = 0 /\
  accepts [:: token2; token0] (demanded late take_first) = 1.
Proof. by split; computed. Qed.
(* The siblings have no law at a node that the rule does not visit: on demand it does not matter. *)
Definition partial (h : history tokens3) : law fractions (seq 'I_3) :=
  if h is [::] then ret _ once else if last token0 (node h) == token0 then ret _ once else [::].
Example no_law_differs : expected (fun=> 1) (whole partial take_first) = 0 /\
  expected (fun=> 1) (demanded partial take_first) = 1.
Proof. by split; computed. Qed.
