(* Coq's rationals, in which the programs run: on the test vectors, and wherever else they are
   asked.

   The theorems are of every ordered field; here the same programs compute. A division by zero gives
   zero, as it does in the theorems. A fraction need not be in lowest terms: most of the time would
   go there; sums and ratios are, unless they keep a denominator. *)
From mathcomp Require Import all_ssreflect.
From Coq Require Import QArith.
From Draftproof Require Import laws emission.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Definition plus (a b : Q) : Q :=
  if Pos.eqb (Qden a) (Qden b) then Qnum a + Qnum b # Qden a else Qred (a + b).
Definition minus (a b : Q) : Q :=
  if Pos.eqb (Qden a) (Qden b) then Qnum a - Qnum b # Qden a else Qred (a - b).
Definition rationals : numbers :=
  @Numbers Q 0%Q 1%Q plus minus Qmult (fun a b => Qred (a / b)) Qle_bool.

(* A row lists the weights of the tokens 0, 1, 2, ...; a model lists its rows by context. *)
Definition row_of (weights : seq Q) : row rationals nat := fun token => nth 0%Q weights token.
Fixpoint found A (default : A) (table : seq (seq nat * A)) (context : seq nat) : A :=
  if table is (known, entry) :: rest then
    if context == known then entry else found default rest context
  else default.
Definition model_of (rows : seq (seq nat * seq Q)) : model rationals nat_eqType :=
  fun context => row_of (found [::] rows context).
Definition context_free (weights : seq Q) : model rationals nat_eqType := fun=> row_of weights.

(* What may happen, each outcome once, with its probability. *)
Fixpoint added (T : eqType) (outcome : T) (w : Q) (outcomes : seq (T * Q)) : seq (T * Q) :=
  if outcomes is (known, v) :: rest then
    if outcome == known then (known, Qred (v + w)) :: rest else (known, v) :: added outcome w rest
  else [:: (outcome, w)].
Definition gathered (T : eqType) (m : law rationals T) : law rationals T :=
  foldl (fun outcomes o => if Qeq_bool o.2 0 then outcomes else added o.1 o.2 outcomes) [::] m.

(* A model with its rows computed once, for the contexts of fewer than n tokens. *)
Fixpoint contexts (vocabulary : seq nat) (n : nat) : seq (seq nat) :=
  if n is n'.+1 then
    [::] :: [seq a :: z | a <- vocabulary, z <- contexts vocabulary n']
  else [::].
Definition tabulated (vocabulary : seq nat) (n : nat) (m : model rationals nat_eqType) :
    model rationals nat_eqType :=
  model_of [seq (z, map (m z) vocabulary) | z <- contexts vocabulary n].
