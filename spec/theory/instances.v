(* Concrete models on which the hypotheses of the theorems hold, with zeros, ties and disjoint
   supports, and conclusions computed on them: nothing is proved of what cannot be. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission block.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Definition vocabulary : seq bool := enum [finType of bool].
Lemma complete : perm_eq vocabulary (enum [finType of bool]). Proof. exact: perm_refl. Qed.

(* The target: a third and two thirds; after `true` it writes `false` for sure. *)
Definition target (z : seq bool) (x : bool) : rat :=
  if last false z then (if x then 0 else 1) else (if x then 2%:Q / 3%:Q else 1 / 3%:Q).
(* The draft: even; after `true` it writes `true` for sure, where the target never does. *)
Definition draft (z : seq bool) (x : bool) : rat :=
  if last false z then (if x then 1 else 0) else 1 / 2%:Q.

Lemma sum_bool (f : bool -> rat) : \sum_x f x = f true + f false.
Proof. by rewrite big_bool. Qed.
Lemma target_model : is_model target.
Proof. by move=> z; rewrite /target; split=> [x|]; [case: last; case: x|rewrite sum_bool; case: last]. Qed.
Lemma draft_model : is_model draft.
Proof. by move=> z; rewrite /draft; split=> [x|]; [case: last; case: x|rewrite sum_bool; case: last]. Qed.

Example block_holds : lossless target (@block (field_numbers rat_realFieldType) _ vocabulary target draft 3).
Proof. exact: (block_lossless complete target_model draft_model). Qed.
(* After `true`, half of all drafts, the draft has nothing of the target's. *)
Example block_true : accepts [:: true] (@block (field_numbers rat_realFieldType) _ vocabulary target draft 2)
  = 1 / 2%:Q.
Proof. by rewrite (block_accepts complete target_model draft_model). Qed.
