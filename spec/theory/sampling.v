(* Sampling: what a law gives at uniform numbers, so that a program that is a law can be asked.

   A law is cut into cells of [0, 1), one for each outcome that it lists, as long as its weight; an
   outcome is that of the cell where the number lies. Emissions take two numbers: one for how many
   tokens are accepted, one for the emission among those that accept as many. Proved: every number
   lies in the cell of the outcome that it gives, and to draw in two steps is to draw at once. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variable N : numbers.
Local Open Scope number_scope.

Definition weight A (m : law N A) : N := foldl (fun s o => s + o.2) 0 m.

(* The first outcome at which the running sum of the weights exceeds the mark. *)
Fixpoint outcome_at A (m : law N A) (mark : N) : option A :=
  if m is (a, w) :: rest then
    if w <= mark then outcome_at rest (mark - w) else Some a
  else None.

Variable T : eqType.

Definition lengths (m : law N (emission T)) : law N nat := [seq (size o.1.1, o.2) | o <- m].
Definition of_length (n : nat) (m : law N (emission T)) : law N (emission T) :=
  [seq o <- m | size o.1.1 == n].

(* The emission of a law at two numbers of [0, 1). *)
Definition emission_at (m : law N (emission T)) (u v : N) : option (emission T) :=
  if outcome_at (lengths m) u is Some n then
    let some := of_length n m in outcome_at some (v * weight some)
  else None.
End Programs.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments expected : simpl never.
Local Arguments probability : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Cells.
Variable R : realFieldType.
Local Notation law := (law (field_numbers R)).
Local Notation weight := (@weight (field_numbers R) _).
Local Notation outcome_at := (@outcome_at (field_numbers R) _).
Implicit Types (A : Type) (u v : R).

Lemma weightE A (m : law A) : weight m = expected (fun=> 1) m.
Proof.
rewrite -[RHS]add0r /laws.expected /sampling.weight /=; move: 0 => s.
elim: m s => [|o m IH] s /=; first by rewrite addr0.
by rewrite IH mulr1 addrA.
Qed.
Lemma weight_cons A (o : A * R) (m : law A) : weight (o :: m) = o.2 + weight m.
Proof. by rewrite !weightE expected_cons mulr1. Qed.
Lemma weight_ge0 A (m : law A) : nonnegative m -> 0 <= weight m.
Proof. by move=> m0; rewrite weightE; apply: expected_ge0 m0 _ => a; apply: ler01. Qed.

(* The outcome at a mark is the one in whose cell the mark lies. *)
Theorem outcome_at_cell A (before after : law A) (a : A) w mark : nonnegative before ->
  weight before <= mark < weight before + w ->
  outcome_at (before ++ (a, w) :: after) mark = Some a.
Proof.
elim: before mark => [|[b v] before IH] mark b0 /=.
  by rewrite weightE expected_nil add0r => /andP[_]; rewrite /= ltNge => /negbTE ->.
have before0 : nonnegative before by move=> c c_in; apply: b0; right.
rewrite weight_cons /= -addrA => /andP[low high].
have -> : v <= mark by apply: le_trans low; rewrite ler_addl weight_ge0.
by apply: IH => //; rewrite ler_subr_addl low ltr_subl_addl.
Qed.

(* The cells of a law cover all marks below its weight. *)
Theorem outcome_at_covers A (m : law A) mark : 0 <= mark < weight m ->
  exists before a w after, [/\ m = before ++ (a, w) :: after,
    weight before <= mark < weight before + w & outcome_at m mark = Some a].
Proof.
elim: m mark => [|[a w] m IH] mark.
  by rewrite weightE expected_nil => /andP[/le_lt_trans h /h]; rewrite ltxx.
rewrite weight_cons /= => /andP[low high]; case: ifP => le; last first.
  exists [::], a, w, m; split=> //.
  by rewrite weightE expected_nil add0r low ltNge le.
have [|before [b [v [after [-> /andP[lo hi] eq]]]]] := IH (mark - w).
  by rewrite subr_ge0 le ltr_subl_addl.
exists ((a, w) :: before), b, v, after; split=> //.
by rewrite weight_cons /= -addrA -ler_subr_addl lo -ltr_subl_addl.
Qed.

Variable T : eqType.
Local Notation lengths := (@lengths (field_numbers R) T).
Local Notation of_length := (@of_length (field_numbers R) T).
Local Notation emission_at := (@emission_at (field_numbers R) T).
Implicit Types m : law (emission T).

Lemma weight_of_length n m : weight (of_length n m) = probability (fun e => size e.1 == n) m.
Proof.
rewrite weightE /probability; elim: m => [|o m IH] //=; rewrite [RHS]expected_cons -IH.
by case: eqP => _; rewrite ?expected_cons ?mulr1 ?mulr0 ?add0r.
Qed.
Lemma expected_of_length n m (f : emission T -> R) :
  expected f (of_length n m) = expected (fun e => f e * (size e.1 == n)%:R) m.
Proof.
elim: m => [|o m IH] //=; rewrite [RHS]expected_cons -IH.
by case: eqP => _; rewrite ?expected_cons ?mulr1 ?mulr0 ?mulr0 ?add0r.
Qed.
Lemma nonnegative_of_length n m : nonnegative m -> nonnegative (of_length n m).
Proof.
elim: m => [|o m IH] m0 //=; have m0' : nonnegative m by move=> b h; apply: m0; right.
by case: ifP => _; [apply: nonnegative_cons (IH m0'); apply: m0; left|apply: IH].
Qed.
Lemma expected_lengths m (f : nat -> R) :
  expected f (lengths m) = expected (fun e => f (size e.1)) m.
Proof. by elim: m => [|o m IH] //; rewrite [LHS]expected_cons [RHS]expected_cons IH. Qed.

(* To draw the length, and then among the emissions of that length in proportion to their weights,
   is to draw from the law itself. *)
Definition in_two_steps m : law (emission T) :=
  n <- lengths m ;; [seq (o.1, o.2 / weight (of_length n m)) | o <- of_length n m].

Lemma of_length_gt0 m e : nonnegative m -> possible m e -> 0 < weight (of_length (size e.1) m).
Proof.
move=> m0 [w e_in w0]; rewrite weight_of_length.
apply: (@lt_le_trans _ _ w); first by rewrite lt_def w0 (m0 _ e_in).
elim: m m0 e_in {w0} => [|o m IH] m0 //= in_m.
have m0' : nonnegative m by move=> b h; apply: m0; right.
have rest0 : 0 <= probability (fun a : emission T => size a.1 == size e.1) m.
  by apply: expected_ge0 m0' _ => a; apply: ler0n.
rewrite /probability expected_cons; case: in_m => [->|/(IH m0') le_w].
  by rewrite eqxx mulr1 ler_addl.
by apply: (le_trans le_w); rewrite ler_addr mulr_ge0 ?ler0n //; apply: m0; left.
Qed.

(* Drawing the number of accepted tokens first, and then the emission among those with as many, is
   drawing from the law itself. *)
Theorem in_two_steps_same m (f : emission T -> R) : nonnegative m ->
  expected f (in_two_steps m) = expected f m.
Proof.
move=> m0; rewrite expected_bind expected_lengths.
pose share n := (weight (of_length n m))^-1.
transitivity (expected (fun e => expected (fun e' =>
    f e' * (share (size e'.1) * (size e.1 == size e'.1)%:R)) m) m).
  apply: eq_expected => e.
  transitivity (expected (fun e' => f e' * share (size e.1)) (of_length (size e.1) m)).
    rewrite expected_mulr /share; move: (weight _) => all.
    elim: (of_length _ m) => [|o some IH]; first by rewrite /= !expected_nil mul0r.
    by rewrite [map _ _]/= !expected_cons IH mulrDl mulrAC.
  rewrite expected_of_length; apply: eq_expected => e'; rewrite eq_sym.
  by case: eqP => [->|_]; rewrite ?mulr1 // !mulr0.
rewrite expected_swap; apply: eq_expected_possible => e e_in.
rewrite expected_mull expected_mull.
have gt0 := of_length_gt0 m0 e_in.
rewrite -[expected _ m]weight_of_length.
by rewrite /share mulVf ?mulr1 // gt_eqF.
Qed.

(* A law has an emission at all numbers from 0 to less than 1. *)
Theorem emission_at_some m u v : is_law m -> 0 <= u < 1 -> 0 <= v < 1 ->
  exists n e w before after, [/\ outcome_at (lengths m) u = Some n,
    of_length n m = before ++ (e, w) :: after,
    weight before <= v * weight (of_length n m) < weight before + w
    & emission_at m u v = Some e].
Proof.
move=> [m0 m1] u01 /andP[v0 v1].
have [|before [n [w [after [eq_m cell at_u]]]]] := @outcome_at_covers _ (lengths m) u.
  by rewrite weightE expected_lengths m1.
have gt0 : 0 < weight (of_length n m).
  have w0 : w != 0.
    by apply/eqP => w0; move: cell; rewrite w0 addr0 => /andP[/le_lt_trans h /h]; rewrite ltxx.
  have : List.In (n, w) (lengths m) by rewrite eq_m; apply: List.in_or_app; right; left.
  case/List.in_map_iff => -[e w'] [[<- eq_w] e_in]; apply: (of_length_gt0 m0).
  by exists w' => //; rewrite eq_w.
have [|before' [e [w' [after' [eq_some cell' at_v]]]]] :=
    @outcome_at_covers _ (of_length n m) (v * weight (of_length n m)).
  by apply/andP; split; [apply: mulr_ge0 => //; apply: ltW|rewrite (gtr_pmull _ gt0)].
by exists n, e, w', before', after'; split=> //; rewrite /sampling.emission_at /= at_u.
Qed.
End Cells.
