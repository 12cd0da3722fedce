(* SpecTr-GBV: greedy block verification of K paths, where every prefix is accepted as if K drafts
   could hit it.

   K independent paths are drawn from the draft. A coupling says, given the paths, where to stop;
   it is a parameter here, as the reference's comes from an exact flow. What it has to satisfy is
   one hypothesis: given any paths it is a law of their prefixes, and over all paths it stops at a
   text with the probability that belongs to the text; there are none for K = 0. Proved for every vocabulary, number and
   length of paths, pair of models and such coupling: the law of what is accepted and of the next
   token; that the text, continued by the modified target, has the target's law at every horizon;
   that repeated iterations keep this law, with new drafts and another coupling each; the expected
   accepted length. There are such couplings: of one path that of greedy block verification, for
   every pair of models; and of equal models any path.
   arXiv 2604.25925. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent selection.
From Draftproof Require greedy_block.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T) (p q : model N T) (count : nat).
Local Open Scope number_scope.

(* The mass of the texts that start with t without all of it being accepted. *)
Definition owed (t : seq T) : N :=
  text p [::] t * power (1 - least (text q [::] t / text p [::] t) 1) count.

(* The probability that t is accepted, and that nothing after it is. *)
Definition taken (t : seq T) : N := text p [::] t - owed t.
Definition stopped (length : nat) (t : seq T) : N :=
  if (size t < length)%N then taken t - total vocabulary (fun a => taken (rcons t a)) else taken t.

(* The target that an iteration leaves; contexts count from the start of the iteration. *)
Definition modified (length : nat) : model N T := fun z =>
  if (size z < length)%N then completed vocabulary (fun a => owed (rcons z a)) (p z) else p z.

(* A coupling gives, for drafted paths, the law of the place to stop. *)
Variables (stop : seq (seq T) -> law N (seq T)) (length : nat).

Definition verify (drafted : seq (seq T)) : law N (emission T) :=
  accepted <- stop drafted ;;
  next <- draw vocabulary (modified length accepted) ;; ret _ (accepted, next).

Definition drafts : law N (seq (seq T)) := independent (path vocabulary q length [::]) count.
Definition spectr_gbv : law N (emission T) := drafted <- drafts ;; verify drafted.
End Programs.

Section Iterations.
Variables (N : numbers) (T : eqType) (vocabulary : seq T) (count : nat).

(* The draft, the coupling and the length may depend on what was written, and on the target. *)
Definition spectr_gbv_iteration (length : seq T -> model N T -> nat)
    (q : seq T -> model N T -> model N T)
    (stop : seq T -> model N T -> seq (seq T) -> law N (seq T))
    (written : seq T) (p : model N T) : greedy_block.iteration N T :=
  let n := length written p in
  emitted <- spectr_gbv vocabulary p (q written p) count (stop written p) n ;;
  ret _ (emitted, modified vocabulary p (q written p) count n).
End Iterations.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments coin : simpl never.
Local Arguments expected : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* -------------------------------------------------------------------------------- one iteration *)
Section Theorems.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Variable count : nat.
Local Notation K := count.
Local Notation law := (law (field_numbers R)).
Local Notation text := (@text (field_numbers R) T).
Local Notation owed := (@owed (field_numbers R) T p q K).
Local Notation taken := (@taken (field_numbers R) T p q K).
Local Notation stopped := (@stopped (field_numbers R) T vocabulary p q K).
Local Notation modified := (@modified (field_numbers R) T vocabulary p q K).
Local Notation drafts := (@drafts (field_numbers R) T vocabulary q K).
Local Notation spectr_gbv := (@spectr_gbv (field_numbers R) T vocabulary p q K).
Implicit Types (x z t : seq T) (a b : T) (n : nat) (stop : seq (seq T) -> law (seq T)).

(* Given any paths that can be drafted, the coupling is a law, and stops at a prefix of one of them;
   over all paths it stops at a text with the probability that belongs to it. *)
Definition couples n stop :=
  [/\ forall xs, possible (drafts n) xs -> is_law (stop xs),
      forall xs x, possible (drafts n) xs -> possible (stop xs) x -> has (prefix x) xs
    & forall x, (size x <= n)%N ->
        probability (pred1 x) (xs <- drafts n ;; stop xs) = stopped n x].

Let p0 t : 0 <= text p [::] t. Proof. exact: text_ge0. Qed.
Let q0 t : 0 <= text q [::] t. Proof. exact: text_ge0. Qed.

Lemma owedE t :
  owed t = text p [::] t * (1 - Num.min (text q [::] t / text p [::] t) 1) ^+ K.
Proof. by rewrite /owed powerE leastE. Qed.
Lemma rest01 t : 0 <= 1 - Num.min (text q [::] t / text p [::] t) 1 <= 1.
Proof.
have low : 0 <= Num.min (text q [::] t / text p [::] t) 1.
  by rewrite le_minr ler01 divr_ge0.
by rewrite subr_ge0 le_minl lexx orbT ler_subl_addr ler_addl low.
Qed.
Lemma owed_ge0 t : 0 <= owed t.
Proof. by rewrite owedE mulr_ge0 // exprn_ge0 //; case/andP: (rest01 t). Qed.
Lemma taken_owed t : taken t + owed t = text p [::] t.
Proof. by rewrite /taken subrK. Qed.
(* What is accepted is p(t) (1 - (1 - min(q(t)/p(t), 1))^K). *)
Lemma takenE t : taken t =
  text p [::] t * (1 - (1 - Num.min (text q [::] t / text p [::] t) 1) ^+ K).
Proof. by rewrite mulrBr mulr1 -owedE. Qed.

Definition owed_after z := \sum_a owed (rcons z a).
(* The modified target is a model, and gives every text its share of what is owed. *)
Lemma modified_model n : is_model (modified n).
Proof.
move=> z; rewrite /modified; case: ifP => // _.
by apply: (completed_row complete) (p_model z) => a; apply: owed_ge0.
Qed.
Lemma modified_owed n z a : (size z < n)%N -> modified n z a * owed_after z = owed (rcons z a).
Proof.
by move=> zn; rewrite /modified zn (completedE complete) // => b; apply: owed_ge0.
Qed.
Lemma modified_after n z : (n <= size z)%N -> modified n z = p z.
Proof. by move=> nz; rewrite /modified ltnNge nz. Qed.

Lemma stoppedE n x : (size x < n)%N -> stopped n x = taken x - \sum_a taken (rcons x a).
Proof. by move=> xn; rewrite /stopped xn (totalE complete). Qed.
Lemma taken_rest x : text p [::] x - \sum_a taken (rcons x a) = owed_after x.
Proof.
apply/eqP; rewrite subr_eq addrC -big_split /=; apply/eqP.
under eq_bigr do rewrite taken_owed text_rcons.
by rewrite -mulr_sumr; case: (p_model x) => _ ->; rewrite mulr1.
Qed.

Section Coupling.
Variables (n : nat) (stop : seq (seq T) -> law (seq T)).
Hypothesis coupled : couples n stop.
Let stops := xs <- drafts n ;; stop xs.

Let drafts_law : is_law (drafts n).
Proof. exact: law_independent (law_path complete q_model n [::]). Qed.
Let stops_law : is_law stops.
Proof. by case: coupled => stop_law _ _; apply: law_bind_possible. Qed.
(* Whatever is accepted has at most n tokens. *)
Lemma stops_short x : possible stops x -> (size x <= n)%N.
Proof.
move=> can; have [xs xs_can x_can] := possible_bind can; have [_ prefixed _] := coupled.
have /hasP[y y_in /size_prefix] := prefixed xs x xs_can x_can; suff -> : size y = n by [].
have [_ sized] := possible_independent xs_can.
suff : all (fun y => size y == n) xs by move/allP/(_ y y_in)/eqP.
by apply: sized => z [w /size_path z_in _]; rewrite z_in.
Qed.
Lemma stops_at x : probability (pred1 x) stops = if (size x <= n)%N then stopped n x else 0.
Proof.
case: leqP => [xn|nx]; first by case: coupled => _ _; apply.
rewrite -[RHS](expected_zero stops); apply: eq_expected_possible => y /stops_short yn /=.
by case: eqP => // yx; rewrite -yx ltnNge yn in nx.
Qed.
Lemma stops_starts x :
  probability (prefix x) stops = if (size x <= n)%N then taken x else 0.
Proof.
case: leqP => [|nx]; last first.
  rewrite -[RHS](expected_zero stops); apply: eq_expected_possible => y /stops_short yn.
  by case: (boolP (prefix x y)) => // /size_prefix/leq_trans/(_ yn); rewrite leqNgt nx.
have none y : (n < size y)%N -> probability (prefix y) stops = 0.
  move=> ny; rewrite -[RHS](expected_zero stops); apply: eq_expected_possible => z /stops_short zn.
  by case: (boolP (prefix y z)) => // /size_prefix/leq_trans/(_ zn); rewrite leqNgt ny.
have split_at y : probability (prefix y) stops =
    probability (pred1 y) stops + \sum_b probability (prefix (rcons y b)) stops.
  rewrite /probability -expected_sum -expected_add; apply: eq_expected => u.
  by rewrite /= greedy_block.prefix_split subrK.
move=> xn; move: {2}(n - size x)%N (erefl (n - size x)%N) => d.
elim: d x xn => [|d IH] x xn rest; rewrite split_at stops_at xn.
  have x_n : size x = n by apply/eqP; rewrite eqn_leq xn -subn_eq0 rest.
  by rewrite big1 ?addr0 /stopped ?x_n ?ltnn // => b _; rewrite none // size_rcons x_n.
have lt : (size x < n)%N by rewrite -subn_gt0 rest.
rewrite stoppedE // [X in _ + X](eq_bigr (fun b => taken (rcons x b))) ?subrK // => b _.
by rewrite IH ?size_rcons // subnS rest.
Qed.

(* The outcome is a law. *)
Theorem spectr_gbv_law : is_law (spectr_gbv stop n).
Proof.
apply: law_bind_possible => // xs xs_can; apply: law_bind => [|x].
  by case: coupled => stop_law _ _; apply: stop_law.
apply: law_bind => [|a]; last exact: law_ret.
by apply: law_draw_row => //; apply: modified_model.
Qed.

Let expected_spectr (f : emission T -> R) : expected f (spectr_gbv stop n) =
  expected (fun x => \sum_a modified n x a * f (x, a)) stops.
Proof.
rewrite [LHS]expected_bind [RHS]expected_bind; apply: eq_expected => xs.
rewrite expected_bind; apply: eq_expected => x.
rewrite expected_bind (expected_draw_row complete); last exact: modified_model.
by apply: eq_bigr => a _; rewrite expected_ret.
Qed.
Let expected_accepted (f : seq T -> R) :
  expected (fun e => f e.1) (spectr_gbv stop n) = expected f stops.
Proof.
rewrite expected_spectr; apply: eq_expected => x /=.
by rewrite -mulr_suml; case: (modified_model n x) => _ ->; rewrite mul1r.
Qed.

(* A text x of at most n tokens is accepted with p(x) (1 - (1 - min(q(x)/p(x), 1))^K), which is 0
   where p(x) = 0. *)
Theorem spectr_gbv_accepts x : accepts x (spectr_gbv stop n) =
  if (size x <= n)%N
  then text p [::] x * (1 - (1 - Num.min (text q [::] x / text p [::] x) 1) ^+ K) else 0.
Proof. by rewrite -takenE -stops_starts -[RHS]expected_accepted. Qed.

(* The probability that x alone is accepted and a is next. *)
Theorem spectr_gbv_ends x a : ends x a (spectr_gbv stop n) =
  (if (size x <= n)%N then stopped n x else 0) * modified n x a.
Proof.
rewrite -stops_at /ends /probability expected_spectr -expected_mulr; apply: eq_expected => u /=.
under eq_bigr do rewrite xpair_eqE.
have [->|ne] := eqVneq u x; last by rewrite mul0r big1 // => b _; rewrite mulr0.
by rewrite mul1r -[RHS](sum_at (modified n x)).
Qed.

(* One iteration, continued by the modified target, has the target's law at every horizon. *)
Theorem spectr_gbv_lossless t : writes (modified n) t (spectr_gbv stop n) = text p [::] t.
Proof.
have := proj2 (greedy_block.lossless_leaving_balanced (modified n) p spectr_gbv_law); apply=> x a.
have acceptsE y : accepts y (spectr_gbv stop n) = if (size y <= n)%N then taken y else 0.
  by rewrite spectr_gbv_accepts -takenE.
rewrite !acceptsE spectr_gbv_ends size_rcons; case: (ltngtP (size x) n) => [xn|nx|x_n].
- rewrite stoppedE // -addrA -mulrDl.
  have -> : taken x - \sum_b taken (rcons x b) + (text p [::] x - taken x) = owed_after x.
    by rewrite -taken_rest addrC addrA subrK.
  by rewrite mulrC modified_owed // taken_owed.
- by rewrite add0r mul0r add0r subr0 modified_after ?text_rcons // ltnW.
rewrite add0r -mulrDl /stopped x_n ltnn addrC subrK modified_after ?x_n //.
by rewrite text_rcons.
Qed.

(* The expected number of accepted tokens: what is accepted of all texts of 1 to n tokens. *)
Theorem spectr_gbv_length : expected (fun e => (size e.1)%:R) (spectr_gbv stop n) =
  \sum_(k < n) \sum_(x : k.+1.-tuple T)
    text p [::] x * (1 - (1 - Num.min (text q [::] x / text p [::] x) 1) ^+ K).
Proof.
rewrite (expected_accepted (fun x => (size x)%:R)).
transitivity (expected (fun u => \sum_(k < n) \sum_(x : k.+1.-tuple T) (prefix x u)%:R) stops).
  by apply: eq_expected_possible => u /stops_short/greedy_block.size_by_prefixes->.
rewrite expected_sum; apply: eq_bigr => k _; rewrite expected_sum; apply: eq_bigr => x _.
by rewrite -[LHS]/(probability _ _) stops_starts size_tuple ltn_ord takenE.
Qed.
End Coupling.
End Theorems.

(* -------------------------------------------------------------------------- repeated iterations *)
Section Repeatedly.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation model := (seq T -> T -> R).
Local Notation decoded := (@greedy_block.decoded (field_numbers R) T).
Variable count : nat.
Variables (length : seq T -> model -> nat) (q : seq T -> model -> model).
Variable stop : seq T -> model -> seq (seq T) -> law (field_numbers R) (seq T).
Local Notation iterate :=
  (@spectr_gbv_iteration (field_numbers R) T vocabulary count length q stop).

(* Whatever was written, and whatever target is left: the draft is a model, and the coupling one. *)
Hypothesis q_model : forall written p, is_model p -> is_model (q written p).
Hypothesis coupled : forall written p, is_model p ->
  couples vocabulary p (q written p) count (length written p) (stop written p).

Let iterate_law written p : is_model p -> is_law (iterate written p).
Proof.
move=> p_ok; apply: law_bind => [|e]; last exact: law_ret.
by apply: spectr_gbv_law => //; [exact: q_model|exact: coupled].
Qed.
Let iterate_models written p : is_model p ->
  forall o, List.In o (iterate written p) -> is_model o.1.2.
Proof.
move=> p_ok o; rewrite /spectr_gbv_iteration => /in_bind[e [b [_ [<-|//] ->]]] /=.
by apply: modified_model => //; apply: q_model.
Qed.
Let iterate_lossless written p :
  is_model p -> greedy_block.lossless_leaving p (iterate written p).
Proof.
move=> p_ok; apply/greedy_block.lossless_leaving_one => t.
by apply: spectr_gbv_lossless => //; [exact: q_model|exact: coupled].
Qed.

(* Any number of iterations gives a law. *)
Theorem spectr_gbv_decoded_law iterations written p : is_model p ->
  is_law (decoded iterate iterations written p).
Proof. exact: greedy_block.decoded_law. Qed.

(* Any number of iterations, each against the target that the last one left, is lossless. *)
Theorem spectr_gbv_decoded_lossless iterations written p t : is_model p ->
  expected (fun o => greedy_block.begins_after o.2 t o.1) (decoded iterate iterations written p) =
  text (N := field_numbers R) p [::] t.
Proof. exact: greedy_block.decoded_lossless. Qed.

(* The first tokens that are written have the target's law. *)
Theorem spectr_gbv_decoded_starts iterations written p t : is_model p ->
  (size t <= iterations)%N ->
  probability (fun o => prefix t o.1) (decoded iterate iterations written p) =
  text (N := field_numbers R) p [::] t.
Proof. exact: greedy_block.decoded_starts. Qed.
End Repeatedly.

(* -------------------------------------------------------------------------- there are couplings *)
Section Couplings.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Local Notation law := (law (field_numbers R)).
Local Notation text := (@text (field_numbers R) T).
Local Notation taken := (@taken (field_numbers R) T p q).
Local Notation stopped := (@stopped (field_numbers R) T vocabulary p q).
Local Notation drafts := (@drafts (field_numbers R) T vocabulary q).
Local Notation keep := (@greedy_block.keep (field_numbers R) T vocabulary p q).
Implicit Types (x z t : seq T) (n count : nat).

Let p0 t : 0 <= text p [::] t. Proof. exact: text_ge0. Qed.
Let q0 t : 0 <= text q [::] t. Proof. exact: text_ge0. Qed.

Let possible_drafts count n xs : possible (drafts count n) xs -> size xs = count.
Proof. by case/possible_independent. Qed.
Let expected_first count n (f : seq T -> R) : (0 < count)%N ->
  expected (fun xs => f (head [::] xs)) (drafts count n) =
  expected f (path (N := field_numbers R) vocabulary q n [::]).
Proof.
case: count => // count _; rewrite /spectr_gbv.drafts expected_independent.
apply: eq_expected => x /=; rewrite expected_const.
by rewrite (proj2 (law_independent _ (law_path complete q_model n [::]))) mul1r.
Qed.

Lemma taken_one t : taken 1 t = Num.min (text p [::] t) (text q [::] t).
Proof.
rewrite (takenE p q 1) expr1 opprB addrC subrK.
by rewrite minC kept_share.
Qed.
(* On one path, greedy block verification is such a coupling: one of several. *)
Theorem keep_couples n : couples vocabulary p q 1 n (fun xs => keep (head [::] xs)).
Proof.
split=> [xs _|xs x can x_can|x xn].
- exact: greedy_block.law_keep.
- have size_xs := possible_drafts can; case: x_can => w x_in _.
  have := greedy_block.keep_drafted x_in; case: xs size_xs {can x_in} => [|y []] //= _ ->.
  by rewrite orbF.
rewrite /probability expected_bind
  (expected_first n (fun y => expected (fun u => (u == x)%:R) (keep y))) //.
have shared_at z : probability (prefix z) (y <- path (N := field_numbers R) vocabulary q n [::] ;;
    keep y) = if (size z <= n)%N then taken 1 z else 0.
  by rewrite (greedy_block.kept_starts complete p_model q_model) /greedy_block.shared taken_one.
transitivity (probability (prefix x)
    (y <- path (N := field_numbers R) vocabulary q n [::] ;; keep y)
  - \sum_b probability (prefix (rcons x b))
      (y <- path (N := field_numbers R) vocabulary q n [::] ;; keep y)).
  rewrite -expected_bind /probability -expected_sum -expected_sub; apply: eq_expected => u.
  exact: greedy_block.prefix_split.
rewrite shared_at xn /stopped (totalE complete).
under eq_bigr do rewrite shared_at size_rcons.
by case: ltnP => _ //; rewrite big1 ?subr0.
Qed.
(* The target that is left is that of greedy block verification. *)
Theorem modified_one n z a : modified (N := field_numbers R) vocabulary p q 1 n z a =
  greedy_block.modified (N := field_numbers R) vocabulary p q n z a.
Proof.
rewrite /modified /greedy_block.modified /completed; case: ifP => // _.
have same b : owed (N := field_numbers R) p q 1 (rcons z b) =
    greedy_block.uncovered (N := field_numbers R) p q (rcons z b).
  rewrite greedy_block.uncoveredE; apply: (@addrI _ (taken 1 (rcons z b))).
  rewrite (taken_owed p q 1) taken_one minC.
  by rewrite min_plus_excess.
rewrite !(totalE complete) /normalised !(totalE complete).
have -> : \sum_b owed (N := field_numbers R) p q 1 (rcons z b) =
  \sum_b greedy_block.uncovered (N := field_numbers R) p q (rcons z b) by apply: eq_bigr.
by case: ifP => // _; rewrite same.
Qed.

(* Of equal models any path will do: all of it is accepted. *)
Theorem equal_couples count n : (0 < count)%N -> (forall z, q z =1 p z) ->
  couples vocabulary p q count n (fun xs => ret _ (head [::] xs)).
Proof.
move=> some same; have text_same z t : text q z t = text p z t.
  by elim: t z => [|a t IH] z //=; rewrite IH same.
have all_taken t : taken count t = text p [::] t.
  rewrite (takenE p q count) text_same; have [->|nz] := eqVneq (text p [::] t) 0.
    by rewrite mul0r.
  by rewrite divff // minxx subrr expr0n gtn_eqF // subr0 mulr1.
split=> [xs _|xs x can x_can|x xn].
- exact: law_ret.
- rewrite (possible_ret x_can); have := possible_drafts can.
  case: xs {can x_can} => [|y xs] /= => [size0|_]; last by rewrite prefix_refl.
  by rewrite -size0 in some.
rewrite /probability expected_bind.
rewrite (eq_expected (g := fun xs => (head [::] xs == x)%:R)) => [|xs].
  rewrite (expected_first n (fun y => (y == x)%:R)) // -/(probability (pred1 x) _).
  rewrite (greedy_block.path_law complete q_model) text_same.
  case: (ltngtP (size x) n) xn => // [xn _|x_n _]; last by rewrite /stopped x_n ltnn all_taken.
  rewrite (stoppedE complete p q count xn) all_taken.
  under eq_bigr do rewrite all_taken text_rcons.
  by rewrite -mulr_sumr; case: (p_model x) => _ ->; rewrite mulr1 subrr.
by rewrite expected_ret.
Qed.
End Couplings.
