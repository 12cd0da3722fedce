(* Instances of the theorems about SpecTr-GBV, with three couplings.

   Of two paths of one token, of even draft, for a target that writes `true` with 9/10: `true` is
   accepted with 9/10 (1 - (1 - 5/9)^2) = 13/18, and `false` with 1/10. One path of two tokens, over
   models with zeros and disjoint supports, as in `instances`. And two paths of the target's own. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent selection instances spectr_gbv.
From Draftproof Require greedy_block.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ----------------------------------------------------------------------------------- two paths *)
Definition often (z : seq bool) (x : bool) : rat := if x then 9%:Q / 10%:Q else 1 / 10%:Q.
Definition even (z : seq bool) (x : bool) : rat := 1 / 2%:Q.
Lemma often_model : is_model often.
Proof. by split=> [[]|]; [checked|checked|rewrite sum_bool; computed]. Qed.
Lemma even_model : is_model even.
Proof. by split=> [x|]; [checked|rewrite sum_bool; computed]. Qed.

(* A drafted `true` is kept with 26/27, and a `false` without one with 2/5. *)
Definition stop2 (xs : seq (seq bool)) : law fractions (seq bool) :=
  if [:: true] \in xs then [:: ([:: true], 26%:Q / 27%:Q); ([::], 1 / 27%:Q)]
  else [:: ([:: false], 2%:Q / 5%:Q); ([::], 3%:Q / 5%:Q)].
Lemma one_of_two (x y z : seq bool) (v w : rat) :
  possible ([:: (x, v); (y, w)] : law fractions (seq bool)) z -> z = x \/ z = y.
Proof. by case=> u /= [[-> _]|[[-> _]|[]]] _; [left|right]. Qed.
Lemma stop2_couples : couples vocabulary often even 2 1 stop2.
Proof.
split=> [xs _|xs x can x_can|x].
- rewrite /stop2; case: ifP => _; split; try by move=> o /= [<-|[<-|//]]; checked.
    by computed.
  by computed.
- have [size_xs sized] := possible_independent can.
  have {sized} : all (fun y : seq bool => size y == 1%N) xs.
    by apply: sized => y [w /size_path->].
  case: xs size_xs {can} x_can => [|y [|z []]] //= _ + /and3P[y1 z1 _].
  case: y y1 => [|a []] // _; case: z z1 => [|b []] // _.
  by rewrite /stop2; case: ifP => + /one_of_two[]-> //; case: a; case: b.
by case: x => [|[] []] // _; computed.
Qed.

Definition spectr2 : law fractions (emission bool) :=
  @spectr_gbv fractions _ vocabulary often even 2 stop2 1.
Definition left2 : seq bool -> bool -> rat := @modified fractions _ vocabulary often even 2 1.

Example spectr2_is_law : is_law spectr2.
Proof. exact: (spectr_gbv_law complete often_model even_model stop2_couples). Qed.
Example spectr2_accepts : accepts [:: true] spectr2 = 13%:Q / 18%:Q.
Proof.
by rewrite (spectr_gbv_accepts complete often_model even_model stop2_couples); computed.
Qed.
(* All that is owed is `true`. *)
Example spectr2_ends : ends [::] true spectr2 = 8%:Q / 45%:Q.
Proof. by rewrite (spectr_gbv_ends complete often_model even_model stop2_couples); computed. Qed.
Example spectr2_writes : writes left2 [:: true; true] spectr2 = 81%:Q / 100%:Q.
Proof.
by rewrite (spectr_gbv_lossless complete often_model even_model stop2_couples); computed.
Qed.
Example spectr2_length : expected (fun e => (size e.1)%:R) spectr2 =
  \sum_(k < 1) \sum_(x : k.+1.-tuple bool) text (N := fractions) often [::] x * (1 - (1 - Num.min
    (text (N := fractions) even [::] x / text (N := fractions) often [::] x) 1) ^+ 2).
Proof. exact: (spectr_gbv_length complete often_model even_model stop2_couples). Qed.

(* ------------------------------------------------------------------------------------ one path *)
Lemma keep2_couples : couples vocabulary target draft 1 2
  (fun xs => @greedy_block.keep fractions _ vocabulary target draft (head [::] xs)).
Proof. exact: (keep_couples complete target_model draft_model). Qed.
Example one_path_leaves :
  modified (N := fractions) vocabulary target draft 1 2 [::] true =
  greedy_block.modified (N := fractions) vocabulary target draft 2 [::] true.
Proof. exact: (modified_one complete target_model draft_model). Qed.

(* --------------------------------------------------------------------------------- equal models *)
Lemma any_couples : couples vocabulary target target 2 2 (fun xs => ret _ (head [::] xs)).
Proof. exact: (equal_couples complete target_model target_model). Qed.

(* ------------------------------------------------------------------- three iterations, one path *)
Definition drafts_after (written : seq bool) (_ : seq bool -> bool -> rat) :
    seq bool -> bool -> rat :=
  greedy_block.after (N := fractions) draft written.
Definition keeps (written : seq bool) (p : seq bool -> bool -> rat) (xs : seq (seq bool)) :
    law fractions (seq bool) :=
  greedy_block.keep (N := fractions) vocabulary p (drafts_after written p) (head [::] xs).
Lemma drafts_after_model written p : is_model p -> is_model (drafts_after written p).
Proof. by move=> _; apply: greedy_block.after_model; apply: draft_model. Qed.
Lemma keeps_couple written p : is_model p ->
  couples vocabulary p (drafts_after written p) 1 2 (keeps written p).
Proof. by move=> p_ok; apply: (keep_couples complete p_ok); apply: drafts_after_model p_ok. Qed.
Definition spectr_decoded := greedy_block.decoded (N := fractions)
  (spectr_gbv_iteration (N := fractions) vocabulary 1 (fun _ _ => 2%N) drafts_after keeps)
  3 [::] target.

Example spectr_decoded_is_law : is_law spectr_decoded.
Proof.
exact: (spectr_gbv_decoded_law complete drafts_after_model keeps_couple _ _ target_model).
Qed.
Example spectr_decoded_continues : expected (fun o => greedy_block.begins_after (N := fractions)
  o.2 [:: false; true; false; false] o.1) spectr_decoded = 2%:Q / 27%:Q.
Proof.
by rewrite (spectr_gbv_decoded_lossless complete drafts_after_model keeps_couple _ _ _
  target_model); computed.
Qed.
Example spectr_decoded_starts :
  probability (fun o => prefix [:: false; true; false] o.1) spectr_decoded = 2%:Q / 9%:Q.
Proof.
have starts := spectr_gbv_decoded_starts complete drafts_after_model keeps_couple [::]
  target_model (isT : (size [:: false; true; false] <= 3)%N).
by rewrite starts; computed.
Qed.

(* ---------------------------------------------------- three iterations, two paths, equal models *)
Definition first_of (_ : seq bool) (_ : seq bool -> bool -> rat) (xs : seq (seq bool)) :
    law fractions (seq bool) := ret _ (head [::] xs).
Lemma first_couples written p : is_model p ->
  couples vocabulary p p 2 2 (first_of written p).
Proof. by move=> p_ok; apply: (equal_couples complete p_ok p_ok). Qed.
Definition equal_decoded := greedy_block.decoded (N := fractions)
  (spectr_gbv_iteration (N := fractions) vocabulary 2 (fun _ _ => 2%N) (fun _ p => p) first_of)
  3 [::] target.
Example equal_decoded_starts :
  probability (fun o => prefix [:: false; true; false] o.1) equal_decoded = 2%:Q / 9%:Q.
Proof.
have starts := spectr_gbv_decoded_starts complete (q := fun _ p => p) (fun _ p p_ok => p_ok)
  first_couples [::] target_model (isT : (size [:: false; true; false] <= 3)%N).
by rewrite starts; computed.
Qed.
