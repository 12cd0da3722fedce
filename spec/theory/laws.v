(* Laws of random programs, with weights in any field of ordered numbers.

   A program is a law: a list of its outcomes with their weights. It is written once, for numbers of
   any kind. The theorems take those of an ordered field in which everything may be divided: x / 0 is
   0, and where a formula has it, its sentence says so. That no such division decides the law of a
   program is shown on models, in instances_division.v. Test vectors and the extracted program take
   Coq's rationals. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Declare Scope number_scope.
Delimit Scope number_scope with number.

Record numbers := Numbers {
  number :> Type;
  zero : number;
  one : number;
  add : number -> number -> number;
  sub : number -> number -> number;
  mul : number -> number -> number;
  div : number -> number -> number;
  at_most : number -> number -> bool }.
Arguments zero {_}. Arguments one {_}.

Notation "0" := zero : number_scope.
Notation "1" := one : number_scope.
Infix "+" := add : number_scope.
Infix "-" := sub : number_scope.
Infix "*" := mul : number_scope.
Infix "/" := div : number_scope.
Infix "<=" := at_most : number_scope.

Section Programs.
Variable N : numbers.
Local Open Scope number_scope.

Definition least (a b : N) : N := if a <= b then a else b.
Definition positive_part (a : N) : N := if a <= 0 then 0 else a.
Definition ratio_or_one (a b : N) : N := if b <= 0 then 1 else a / b.

(* A law lists outcomes with weights; an outcome may be listed more than once. *)
Definition law A := seq (A * N).
Definition ret A (a : A) : law A := [:: (a, 1)].
Definition bind A B (m : law A) (k : A -> law B) : law B :=
  flatten [seq [seq (b.1, a.2 * b.2) | b <- k a.1] | a <- m].
Definition expect A (f : A -> N) (m : law A) : N := foldr (fun a s => a.2 * f a.1 + s) 0 m.
Definition coin (c : N) : law bool := [:: (true, c); (false, 1 - c)].
Fixpoint power (x : N) (n : nat) : N := if n is n'.+1 then x * power x n' else 1.

(* Rows of a vocabulary: functions of its tokens. *)
Variables (T : Type) (vocabulary : seq T).
Definition row := T -> N.
Definition total (r : row) : N := foldr (fun x s => r x + s) 0 vocabulary.
Definition normalised (r : row) : row := let whole := total r in fun x => r x / whole.
Definition draw (r : row) : law T := let own := normalised r in [seq (x, own x) | x <- vocabulary].
Definition excess (p q : row) (scale : N) : row := fun x => positive_part (scale * p x - q x).
End Programs.

Notation "x <- m ;; k" := (bind m (fun x => k))
  (at level 100, m at next level, right associativity).
Notation "' x <- m ;; k" := (bind m (fun y => let x := y in k))
  (at level 100, x pattern, m at next level, right associativity).

(* ---------------------------------------------------------------------------- expectations *)
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Canonical field_numbers (R : realFieldType) : numbers := @Numbers R 0 1
  (fun a b => a + b) (fun a b => a - b) (fun a b => a * b) (fun a b => a / b) (fun a b => a <= b).

Section Expectations.
Variable R : realFieldType.
Local Notation law := (law (field_numbers R)).
Implicit Types A B C : Type.

Definition expected A (f : A -> R) (m : law A) : R := expect (N := field_numbers R) f m.
Definition probability A (e : A -> bool) (m : law A) : R := expected (fun a => (e a)%:R) m.

Lemma expected_nil A (f : A -> R) : expected f [::] = 0. Proof. by []. Qed.
Lemma expected_cons A (f : A -> R) a (m : law A) :
  expected f (a :: m) = a.2 * f a.1 + expected f m.
Proof. by []. Qed.
Lemma expected_cat A (f : A -> R) (m m' : law A) :
  expected f (m ++ m') = expected f m + expected f m'.
Proof. by elim: m => [|a m IH]; rewrite ?add0r // cat_cons !expected_cons IH addrA. Qed.
Lemma expected_scaled A (f : A -> R) (c : R) (m : law A) :
  expected f [seq (b.1, c * b.2) | b <- m] = c * expected f m.
Proof.
elim: m => [|a m IH]; first by rewrite /expected /= mulr0.
by rewrite [map _ _]/= !expected_cons IH mulrDr mulrA.
Qed.
Lemma expected_bind A B (f : B -> R) (m : law A) (k : A -> law B) :
  expected f (x <- m ;; k x) = expected (fun a => expected f (k a)) m.
Proof.
by elim: m => [|a m IH] //; rewrite expected_cons -IH /bind /= expected_cat expected_scaled.
Qed.
Lemma expected_ret A (f : A -> R) a : expected f (ret _ a) = f a.
Proof. by rewrite /ret expected_cons /= mul1r addr0. Qed.
Lemma expected_coin (f : bool -> R) (c : R) :
  expected f (coin (c : field_numbers R)) = c * f true + (1 - c) * f false.
Proof. by rewrite !expected_cons expected_nil addr0. Qed.
Lemma eq_expected A (f g : A -> R) (m : law A) : f =1 g -> expected f m = expected g m.
Proof. by move=> fg; elim: m => [|a m IH] //; rewrite !expected_cons fg IH. Qed.
Lemma expected_add A (f g : A -> R) (m : law A) :
  expected (fun a => f a + g a) m = expected f m + expected g m.
Proof.
by elim: m => [|a m IH]; rewrite ?expected_nil ?addr0 // !expected_cons IH mulrDr addrACA.
Qed.
Lemma expected_mull A (c : R) (f : A -> R) (m : law A) :
  expected (fun a => c * f a) m = c * expected f m.
Proof.
by elim: m => [|a m IH]; rewrite ?expected_nil ?mulr0 // !expected_cons IH mulrDr mulrCA.
Qed.
Lemma expected_mulr A (c : R) (f : A -> R) (m : law A) :
  expected (fun a => f a * c) m = expected f m * c.
Proof. by rewrite mulrC -expected_mull; apply: eq_expected => a; rewrite mulrC. Qed.
Lemma expected_sub A (f g : A -> R) (m : law A) :
  expected (fun a => f a - g a) m = expected f m - expected g m.
Proof.
rewrite -[- expected g m]mulN1r -expected_mull -expected_add.
by apply: eq_expected => a; rewrite mulN1r.
Qed.
Lemma expected_zero A (m : law A) : expected (fun=> 0) m = 0.
Proof. by elim: m => [|a m IH] //; rewrite expected_cons IH mulr0 addr0. Qed.
Lemma expected_const A (c : R) (m : law A) : expected (fun=> c) m = expected (fun=> 1) m * c.
Proof. by rewrite -expected_mulr; apply: eq_expected => a; rewrite mul1r. Qed.
Lemma expected_sum A I (s : seq I) (f : I -> A -> R) (m : law A) :
  expected (fun a => \sum_(i <- s) f i a) m = \sum_(i <- s) expected (f i) m.
Proof.
elim: s => [|i s IH].
  by rewrite big_nil -[RHS](expected_zero m); apply: eq_expected => a; rewrite big_nil.
by rewrite big_cons -IH -expected_add; apply: eq_expected => a; rewrite big_cons.
Qed.

Lemma expected_swap A B (f : A -> B -> R) (m : law A) (m' : law B) :
  expected (fun a => expected (f a) m') m = expected (fun b => expected (fun a => f a b) m) m'.
Proof.
elim: m => [|a m IH].
  by rewrite expected_nil -(expected_zero m'); apply: eq_expected => b; rewrite expected_nil.
rewrite expected_cons IH -expected_mull -expected_add.
by apply: eq_expected => b; rewrite expected_cons.
Qed.

(* Only what a law lists counts, and what a program lists comes from what its parts list. *)
Lemma eq_expected_in A (f g : A -> R) (m : law A) :
  (forall o, List.In o m -> f o.1 = g o.1) -> expected f m = expected g m.
Proof.
elim: m => [|o m IH] // fg; rewrite !expected_cons fg; last by left.
by rewrite IH // => b b_in; apply: fg; right.
Qed.
Lemma in_bind A B (m : law A) (k : A -> law B) b : List.In b (x <- m ;; k x) ->
  exists a c, [/\ List.In a m, List.In c (k a.1) & b = (c.1, a.2 * c.2)].
Proof.
elim: m => [|a m IH] //; rewrite /bind /= => /(@List.in_app_or _ _ _ _)[]; last first.
  by move=> /IH[a' [c [a_in c_in ->]]]; exists a', c; split=> //; right.
by move/List.in_map_iff=> [c [<- c_in]]; exists a, c; split=> //; left.
Qed.

(* An outcome is a law: no weight is negative, and the weights sum to one. *)
Definition nonnegative A (m : law A) := forall a : A * R, List.In a m -> 0 <= a.2.
Definition is_law A (m : law A) := nonnegative m /\ expected (fun=> 1) m = 1.

Lemma nonnegative_cons A (a : A * R) (m : law A) :
  0 <= a.2 -> nonnegative m -> nonnegative (a :: m).
Proof. by move=> a0 m0 b [<-|/m0]. Qed.
Lemma nonnegative_ret A (a : A) : nonnegative (ret (field_numbers R) a).
Proof. by move=> b [<-|[]] /=; rewrite ler01. Qed.
Lemma nonnegative_coin (c : R) : 0 <= c <= 1 -> nonnegative (coin (c : field_numbers R)).
Proof. by move=> /andP[c0 c1] b [<-|[<-|[]]] //=; rewrite subr_ge0. Qed.
Lemma nonnegative_bind A B (m : law A) (k : A -> law B) :
  nonnegative m -> (forall a, nonnegative (k a)) -> nonnegative (x <- m ;; k x).
Proof.
move=> m0 k0; elim: m m0 => [|a m IH] m0 //= b.
rewrite /bind /= => /(@List.in_app_or _ _ _ _)[|b_in]; last first.
  by apply: IH b_in => c c_in; apply: m0; right.
case/List.in_map_iff=> c [<-] /k0 c0 /=.
by apply: mulr_ge0 c0; apply: m0; left.
Qed.
Lemma expected_ge0 A (f : A -> R) (m : law A) :
  nonnegative m -> (forall a, 0 <= f a) -> 0 <= expected f m.
Proof.
move=> m0 f0; elim: m m0 => [|a m IH] m0; first by rewrite expected_nil.
by rewrite expected_cons addr_ge0 ?mulr_ge0 //; [apply: m0; left|apply: IH => b h; apply: m0; right].
Qed.
Lemma expected_mono A (f g : A -> R) (m : law A) :
  nonnegative m -> (forall a, f a <= g a) -> expected f m <= expected g m.
Proof.
move=> m0 fg; rewrite -subr_ge0 -expected_sub.
by apply: expected_ge0 => // a; rewrite subr_ge0.
Qed.
Lemma law_ret A (a : A) : is_law (ret (field_numbers R) a).
Proof. by split; [apply: nonnegative_ret|rewrite expected_ret]. Qed.
Lemma law_coin (c : R) : 0 <= c <= 1 -> is_law (coin (c : field_numbers R)).
Proof.
by move=> c01; split; [apply: nonnegative_coin|rewrite expected_coin !mulr1 addrC subrK].
Qed.
Lemma law_bind A B (m : law A) (k : A -> law B) :
  is_law m -> (forall a, is_law (k a)) -> is_law (x <- m ;; k x).
Proof.
move=> [m0 m1] k_law; split; first by apply: nonnegative_bind => // a; case: (k_law a).
by rewrite expected_bind -[RHS]m1; apply: eq_expected => a; case: (k_law a).
Qed.
End Expectations.
Arguments expected {R A}. Arguments probability {R A}.

(* -------------------------------------------------------------------------------------- rows *)
Section Rows.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
(* The vocabulary lists every token once. *)
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation row := (T -> R).

Lemma powerE (x : R) n : power (N := field_numbers R) x n = x ^+ n.
Proof. by elim: n => [|n IH] //=; rewrite IH exprS. Qed.
Lemma leastE (a b : R) : least (N := field_numbers R) a b = Num.min a b.
Proof. by rewrite /least /= /Order.min; case: (ltgtP a b). Qed.
Lemma positive_partE (a : R) : positive_part (N := field_numbers R) a = Num.max a 0.
Proof. by rewrite /positive_part /= /Order.max; case: (ltgtP a 0). Qed.
Lemma sum_vocabulary (f : row) : \sum_(x <- vocabulary) f x = \sum_x f x.
Proof. by rewrite (perm_big _ complete) /= big_enum. Qed.
Lemma totalE (f : row) : total (N := field_numbers R) vocabulary f = \sum_x f x.
Proof. by rewrite -sum_vocabulary unlock /total /reducebig; elim: vocabulary => //= x s ->. Qed.

Definition is_row (r : row) := (forall x, 0 <= r x) /\ \sum_x r x = 1.

Lemma expected_draw (f r : row) : expected f (draw (N := field_numbers R) vocabulary r) =
  \sum_x r x / (\sum_y r y) * f x.
Proof.
rewrite -[RHS]sum_vocabulary -totalE /draw /normalised; move: (total _ _) => t.
by elim: vocabulary => [|x s IH]; rewrite ?big_nil // big_cons [map _ _]/= expected_cons IH.
Qed.
Lemma expected_draw_row (f r : row) : is_row r ->
  expected f (draw (N := field_numbers R) vocabulary r) = \sum_x r x * f x.
Proof. by move=> [_ r1]; rewrite expected_draw r1; apply: eq_bigr => x _; rewrite divr1. Qed.
Lemma nonnegative_draw (r : row) :
  (forall x, 0 <= r x) -> nonnegative (draw (N := field_numbers R) vocabulary r).
Proof.
move=> r0 a /List.in_map_iff[x [<- _]] /=.
by rewrite /normalised /= divr_ge0 // totalE sumr_ge0.
Qed.
Lemma law_draw (r : row) :
  (forall x, 0 <= r x) -> 0 < \sum_x r x -> is_law (draw (N := field_numbers R) vocabulary r).
Proof.
move=> r0 r1; split; first exact: nonnegative_draw.
by rewrite expected_draw; under eq_bigr do rewrite mulr1; rewrite -mulr_suml divff ?gt_eqF.
Qed.
Lemma law_draw_row (r : row) : is_row r -> is_law (draw (N := field_numbers R) vocabulary r).
Proof. by move=> [r0 r1]; apply: law_draw; rewrite ?r1 ?ltr01. Qed.

Lemma sum_at (f : row) y : \sum_x f x * (x == y)%:R = f y.
Proof.
by rewrite (bigD1 y) //= eqxx mulr1 big1 ?addr0 // => x ne; rewrite (negbTE ne) mulr0.
Qed.
End Rows.

(* What is kept of a row and what is owed make up the whole: the one step of all verification. *)
Section Shares.
Variables (R : realFieldType) (T : finType).
Implicit Types (a b : T -> R) (w : R).

Lemma min_plus_excess (x y : R) : Num.min y x + Num.max (x - y) 0 = x.
Proof.
rewrite /Order.min /Order.max; case: (ltrP y x) => h.
  by rewrite subr_lt0 ltNge (ltW h) /= addrC subrK.
by move: h; rewrite le_eqVlt => /orP[/eqP->|h]; rewrite ?subrr ?ltxx ?addr0 // subr_lt0 h addr0.
Qed.
(* A token drawn with y and accepted with min(1, x / y) is kept with min(x, y), even where y = 0. *)
Lemma kept_share (x y : R) : 0 <= x -> 0 <= y -> y * Num.min 1 (x / y) = Num.min y x.
Proof.
move=> x0 y0; have [->|ny] := eqVneq y 0; first by rewrite mul0r; symmetry; apply/min_idPl.
have yp : 0 < y by rewrite lt_def ny.
by rewrite minr_pmulr // mulr1 mulrCA divff // mulr1.
Qed.
Lemma min1_in01 (x y : R) : 0 <= x -> 0 <= y -> 0 <= Num.min 1 (x / y) <= 1.
Proof. by move=> x0 y0; rewrite le_minr ler01 divr_ge0 //= le_minl lexx. Qed.

Section OneDraw. (* the mass a, of total w, against a draw from b *)
Variables (a b : T -> R) (w : R).
Hypotheses (a0 : forall x, 0 <= a x) (b0 : forall x, 0 <= b x).
Hypotheses (aw : \sum_x a x = w) (b1 : \sum_x b x = 1).
Let s := \sum_x Num.max (a x - b x) 0.
Lemma owed_ge0 : 0 <= s.
Proof. by apply: sumr_ge0 => x _; rewrite le_maxr lexx orbT. Qed.
Lemma rejected : \sum_x b x * (1 - Num.min 1 (a x / b x)) = s + (1 - w).
Proof.
transitivity (\sum_x (Num.max (a x - b x) 0 + (b x - a x))); last first.
  by rewrite big_split /= sumrB b1 aw.
apply: eq_bigr => x _; rewrite mulrBr mulr1 kept_share //.
have := min_plus_excess (a x) (b x); move: (Num.min _ _) (Num.max _ _) => m e <-.
by rewrite opprD [b x + (_ - _)]addrA [RHS]addrC subrK.
Qed.
Lemma owed_all : s = 0 -> forall x, Num.max (a x - b x) 0 = 0.
Proof.
move=> /eqP; rewrite psumr_eq0 => [/allP all0 x|x _]; last by rewrite le_maxr lexx orbT.
by apply/eqP/(implyP (all0 x _)); rewrite ?mem_index_enum.
Qed.
Lemma restored y : b y * Num.min 1 (a y / b y) + s * (Num.max (a y - b y) 0 / s) = a y.
Proof.
rewrite kept_share //; have [s0|ns] := eqVneq s 0; last first.
  by rewrite mulrCA divff // mulr1 min_plus_excess.
by have := min_plus_excess (a y) (b y); rewrite owed_all // s0 mul0r.
Qed.
End OneDraw.
End Shares.
