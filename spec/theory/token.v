(* Token verification: accept token by token, correct at the first rejection.

   Proved for every vocabulary, length and pair of models: the probability that a prefix is accepted
   is the product of min(p, q) over its tokens, and the text has the target's law at every horizon.
   arXiv 2211.17192, Algorithm 1; arXiv 2302.01318, Algorithm 2. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent rejection.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T) (p q : model N T).

Definition one_sibling (h : history T) : law N (seq T) :=
  drafted <- draw vocabulary (q (node h)) ;; ret _ [:: drafted].
Definition token (length : nat) : law N (emission T) :=
  descend vocabulary p q one_sibling (accept_or_correct vocabulary) length [::].
End Programs.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Theorems.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Local Notation law := (law (field_numbers R)).
Local Notation one_sibling := (@one_sibling (field_numbers R) T vocabulary q).
Local Notation accept_or_correct := (@accept_or_correct (field_numbers R) T vocabulary).
Local Notation decide := (@decide (field_numbers R) T p q one_sibling accept_or_correct).
Local Notation token := (@token (field_numbers R) T vocabulary p q).

Lemma law_one_sibling h : is_law (one_sibling h).
Proof. by apply: law_bind => [|x]; [apply: (law_draw_row complete)|apply: law_ret]. Qed.
Lemma expected_decide (f : T * bool -> R) h :
  expected (fun d => f d.2) (decide h) = \sum_x
    (Num.min (q (node h) x) (p (node h) x) * f (x, true)
     + Num.max (p (node h) x - q (node h) x) 0 * f (x, false)).
Proof.
rewrite expected_position expected_bind (expected_draw_row complete) //.
rewrite -(expected_accept_or_correct complete) //.
by apply: eq_bigr => x _; rewrite expected_ret.
Qed.
Lemma decide_follows h : follows (p (node h)) (decide h).
Proof.
split; last first.
  move=> a; rewrite /probability (expected_decide (fun c => (c.1 == a)%:R)) /=.
  by under eq_bigr do rewrite -mulrDl min_plus_excess; apply: sum_at.
apply: law_position => [|s]; first exact: law_one_sibling.
case/(@possible_bind _ _ _ _ (fun x => ret (field_numbers R) [:: x])) => x /possible_draw.
have [_ q1] := q_model (node h); have -> : normalised vocabulary (q (node h)) x = q (node h) x.
  by rewrite (normalisedE complete) q1 divr1.
move=> qx /(@possible_ret R _ [:: x] s) ->.
exact: (law_accept_or_correct complete).
Qed.
Lemma accepted_decide h a : accepted a (decide h) = Num.min (q (node h) a) (p (node h) a).
Proof.
rewrite /accepted /probability (expected_decide (fun c => (c == (a, true))%:R)) /=.
rewrite -[RHS](sum_at (fun x => Num.min (q (node h) x) (p (node h) x))).
by apply: eq_bigr => x _; rewrite !xpair_eqE andbT andbF mulr0 addr0.
Qed.

(* The outcome of token verification is a law. *)
Theorem token_law n : is_law (token n).
Proof. by apply: (law_descend complete) => // h _ _; apply: decide_follows. Qed.
(* The text after token verification has the target's law, at every horizon. *)
Theorem token_lossless n : lossless p (token n).
Proof. by apply: (descend_lossless complete) => // h _ _; apply: decide_follows. Qed.

(* What is accepted, and what is next. *)
Definition shared (z : seq T) (x : T) : R := Num.min (q z x) (p z x).
(* Of a draft of L tokens, at least x is accepted with the product of min(q, p) over the tokens of
   x, and with 0 if |x| > L. *)
Theorem token_accepts n x : accepts x (token n) =
  if (size x <= n)%N then text (N := field_numbers R) shared [::] x else 0.
Proof.
apply: (accepts_descend complete) => // h; first by move=> _ _; apply: decide_follows.
by move=> a _ _; apply: accepted_decide.
Qed.
(* The probability that x alone is accepted and a is next is P(at least x is accepted) p(a|x) -
   P(at least xa is accepted). *)
Theorem token_ends n x a : ends x a (token n) =
  accepts x (token n) * p x a - accepts (rcons x a) (token n).
Proof.
have := descend_balanced complete p_model (fun h _ _ => decide_follows h) x a.
by rewrite /token => <-; rewrite addrC addKr.
Qed.
End Theorems.
