(* Greedy multi-path block verification: select the highest-ranked of K drafted paths, then verify
   it as a block.

   K independent paths are drawn from the draft. From the root one goes down to one of the tokens
   that follow there, and keeps the paths that start with it; the path selected is verified against
   the law that it has. Proved for every vocabulary, number and length of paths and pair of models,
   and first for every way to choose among the tokens at a node: the path selected is one of those
   drafted, and if the numbers of paths that share the selected prefix are followed, they give a
   model that it is drawn from. Then for the highest in any strict order of the tokens that can be
   drafted: that model is the skewed model of the paper, and so the law of what is accepted and of
   the next token is that of block verification against it, and the text has the target's law at
   every horizon.
   arXiv 2602.16961. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission block descent.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T).
Local Open Scope number_scope.

(* n independent outcomes of one law. *)
Fixpoint independent A (m : law N A) (n : nat) : law N (seq A) :=
  if n is n'.+1 then
    first <- m ;; others <- independent m n' ;; ret _ (first :: others)
  else ret _ [::].

(* Of paths that share a node, the tokens that follow it; and what follows the token a. *)
Definition siblings (paths : seq (seq T)) : seq T := pmap ohead paths.
Definition after (a : T) (paths : seq (seq T)) : seq (seq T) :=
  pmap (fun x => if x is b :: rest then if b == a then Some rest else None else None) paths.

(* A way to choose gets the context and the tokens that were drafted after it. *)
Definition choice := seq T -> seq T -> law N T.

Section Select.
Variables (choose : choice) (q : model N T).

(* Go down from z, n tokens, along the paths that share the tokens chosen. *)
Fixpoint select (n : nat) (z : seq T) (paths : seq (seq T)) : law N (seq T) :=
  if n is n'.+1 then
    chosen <- choose z (siblings paths) ;;
    below <- select n' (rcons z chosen) (after chosen paths) ;; ret _ (chosen :: below)
  else ret _ [::].

Definition selected (count length : nat) : law N (seq T) :=
  drafted <- independent (path vocabulary q length [::]) count ;; select length [::] drafted.

(* The same on a tree that draws siblings on demand: after a node, one for every copy of it. *)
Fixpoint grow (n : nat) (z : seq T) (copies : nat) : law N (seq T) :=
  if n is n'.+1 then
    drafted <- independent (draw vocabulary (q z)) copies ;;
    chosen <- choose z drafted ;;
    below <- grow n' (rcons z chosen) (count_mem chosen drafted) ;; ret _ (chosen :: below)
  else ret _ [::].
End Select.

(* The weights, normalised; where there are none, another row. *)
Definition completed (weights other : row N T) : row N T :=
  if total vocabulary weights <= 0 then other else normalised vocabulary weights.

(* The highest-ranked token; of equals, the first. *)
Fixpoint highest (rank : T -> nat) (tokens : seq T) : option T :=
  if tokens is a :: others then
    if highest rank others is Some b then Some (if (rank a < rank b)%N then b else a) else Some a
  else None.

(* The place of a token in an order that lists tokens, the lowest first. *)
Definition in_order (order : seq T -> seq T) (z : seq T) (a : T) : nat := index a (order z).

(* The tokens that can be drafted, lowest p/q first, equals as they come in the vocabulary. *)
Definition by_ratio (p q : model N T) (z : seq T) : seq T :=
  let ratio a := p z a / q z a in
  let lower a b := (ratio a <= ratio b) &&
    ~~ ((ratio b <= ratio a) && (index b vocabulary < index a vocabulary)%N) in
  sort lower [seq a <- vocabulary | ~~ (q z a <= 0)].

Section Highest.
Variables (rank : seq T -> T -> nat) (q : model N T) (count : nat).

Definition go_to_highest : choice := fun z tokens =>
  if highest (rank z) tokens is Some a then ret _ a else [::].

(* The mass that the draft gives to lower-ranked tokens. *)
Definition lower (z : seq T) (a : T) : N :=
  total vocabulary (fun b => if (rank z b < rank z a)%N then q z b else 0).

(* The mass of the paths ranked below a prefix, and the mass of those that start with it. *)
Fixpoint standing_after (z rest : seq T) (below mass : N) : N * N :=
  if rest is a :: rest' then
    standing_after (rcons z a) rest' (below + mass * lower z a) (mass * q z a)
  else (below, mass).
Definition standing (z : seq T) : N * N := standing_after [::] z 0 1.

Definition difference (high low : N) : N := power high count - power low count.

(* The law of the highest-ranked of the paths; off the paths, the draft's own. *)
Definition skewed : model N T := fun z =>
  let '(below, mass) := standing z in
  completed (fun a =>
    let edge := below + mass * lower z a in difference (edge + mass * q z a) edge) (q z).
End Highest.

Definition multipath_block (rank : seq T -> T -> nat) (p q : model N T) (count length : nat) :
    law N (emission T) :=
  path <- selected (go_to_highest rank) q count length ;;
  verify vocabulary p (skewed rank q count) path.
End Programs.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments coin : simpl never.
Local Arguments expected : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* -------------------------------------------------------------------------- independent draws *)
Section Independent.
Variable R : realFieldType.
Local Notation law := (law (field_numbers R)).
Implicit Types A B : Type.

Lemma expected_independent A (f : seq A -> R) (m : law A) n :
  expected f (independent m n.+1) =
  expected (fun a => expected (fun s => f (a :: s)) (independent m n)) m.
Proof.
rewrite [independent _ _]/= expected_bind; apply: eq_expected => a; rewrite expected_bind.
by apply: eq_expected => s; rewrite expected_ret.
Qed.
Lemma law_independent A (m : law A) n : is_law m -> is_law (independent m n).
Proof.
move=> m_law; elim: n => [|n IH] /=; first exact: law_ret.
by apply: law_bind m_law _ => a; apply: law_bind IH _ => s; apply: law_ret.
Qed.
Lemma possible_independent A (m : law A) n (s : seq A) : possible (independent m n) s ->
  size s = n /\ forall P : pred A, (forall a, possible m a -> P a) -> all P s.
Proof.
elim: n s => [|n IH] s can; first by rewrite (possible_ret can).
rewrite [independent _ _]/= in can.
have [a a_can {}can] := possible_bind can; have [s' s'_can {}can] := possible_bind can.
have [size_s' all_s'] := IH s' s'_can; rewrite (possible_ret can) /=.
by split=> [|P ok]; rewrite ?size_s' // ok //= all_s'.
Qed.
Lemma expected_each (T : finType) (f : T -> R) (m : law T) :
  expected f m = \sum_a probability (pred1 a) m * f a.
Proof.
rewrite /probability; under eq_bigr => a _ do rewrite -expected_mulr.
rewrite -expected_sum; apply: eq_expected => b.
rewrite -(sum_at f b); apply: eq_bigr => a _.
by rewrite mulrC /= [b == a]eq_sym.
Qed.
End Independent.

(* ----------------------------------------------------------------------------------- selection *)
Section Selection.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation draw := (@draw (field_numbers R) T vocabulary).
Local Notation path := (@path (field_numbers R) T vocabulary).
Implicit Types (z x s : seq T) (a b : T) (i k n : nat).

(* Completed weights are a row, and in proportion to the weights. *)
Section Completed.
Variables weights other : T -> R.
Hypotheses (weights0 : forall a, 0 <= weights a) (other_row : is_row other).
Local Notation completed := (completed (N := field_numbers R) vocabulary weights other).
Lemma completed_row : is_row completed.
Proof.
rewrite /completed /= (totalE complete); case: lerP => // pos.
split=> [a|]; rewrite /normalised /= (totalE complete); first by rewrite divr_ge0 // ltW.
by rewrite -mulr_suml divff ?gt_eqF.
Qed.
Lemma completedE a : completed a * (\sum_b weights b) = weights a.
Proof.
rewrite /completed /= (totalE complete); case: lerP => [none|pos]; last first.
  by rewrite /normalised /= (totalE complete) mulfVK ?gt_eqF.
have zero : \sum_b weights b = 0 by apply/eqP; rewrite eq_le none sumr_ge0.
rewrite zero mulr0; move/eqP: zero; rewrite psumr_eq0 // => /allP/(_ a).
by rewrite mem_index_enum => /(_ isT)/eqP.
Qed.
End Completed.

(* One of the tokens is chosen, whenever there is any. *)
Definition chooses (choose : choice (field_numbers R) T) := forall z s,
  [/\ nonnegative (choose z s), s != [::] -> expected (fun=> 1) (choose z s) = 1
    & forall a, possible (choose z s) a -> a \in s].

Variable q : seq T -> T -> R.
Hypothesis q_model : is_model q.
Let q1 z : \sum_a q z a = 1. Proof. by case: (q_model z). Qed.
Let q0 z a : 0 <= q z a. Proof. by case: (q_model z). Qed.

(* Of k independent tokens, i are a and the others are in a set without a. *)
Lemma binomial z a (among : pred T) k i : ~~ among a ->
  probability (fun s => (count_mem a s == i) && all (fun b => (b == a) || among b) s)
    (independent (draw (q z)) k)
  = 'C(k, i)%:R * q z a ^+ i * (\sum_(b | among b) q z b) ^+ (k - i).
Proof.
move=> not_a; set other := \sum_(b | _) _; rewrite /probability.
elim: k i => [|k IH] i.
  rewrite expected_ret sub0n expr0 mulr1; case: i => [|i] /=; first by rewrite bin0 expr0 mulr1.
  by rewrite bin0n mul0r.
rewrite expected_independent (expected_draw_row complete) // (bigD1 a) //=.
have -> (g : T -> R) : \sum_(b | b != a) g b =
    \sum_(b | among b) g b + \sum_(b | (b != a) && ~~ among b) g b.
  rewrite (bigID among) /=; congr (_ + _); apply: eq_bigl => b.
  by case: (eqVneq b a) => [->|//]; rewrite (negbTE not_a).
rewrite [X in _ + (_ + X)]big1 ?addr0 => [|b /andP[ne no]]; last first.
  rewrite -[RHS](mulr0 (q z b)) -[in RHS](expected_zero (independent (draw (q z)) k)).
  by congr (_ * _); apply: eq_expected => s; rewrite (negbTE ne) (negbTE no) andbF.
have others : \sum_(b | among b) q z b *
    expected (fun s => (((b == a) + count_mem a s == i)%N &&
      (((b == a) || among b) && all (fun c => (c == a) || among c) s))%:R)
    (independent (draw (q z)) k) = other * ('C(k, i)%:R * q z a ^+ i * other ^+ (k - i)).
  rewrite -IH mulr_suml; apply: eq_bigr => b in_b; congr (_ * _); apply: eq_expected => s.
  by rewrite in_b orbT; case: (eqVneq b a) in_b => [->|]; rewrite ?(negbTE not_a).
rewrite others; case: i {others} => [|i].
  rewrite [X in q z a * X](_ : _ = 0) ?mulr0 ?add0r; last first.
    rewrite -[RHS](expected_zero (independent (draw (q z)) k)).
    by apply: eq_expected => s; rewrite eqxx add1n.
  by rewrite !bin0 !expr0 !mul1r !subn0 exprS.
have -> : expected (fun s => (((a == a) + count_mem a s == i.+1)%N &&
      (((a == a) || among a) && all (fun c => (c == a) || among c) s))%:R)
    (independent (draw (q z)) k) = 'C(k, i)%:R * q z a ^+ i * other ^+ (k - i).
  by rewrite -IH; apply: eq_expected => s; rewrite eqxx add1n eqSS.
rewrite binS natrD subSS addrC !mulrDl; congr (_ + _); last first.
  by rewrite mulrA mulrCA -exprS.
have [lt|ge] := ltnP i k; last by rewrite bin_small // mulr0n !mul0r mulr0.
by rewrite mulrCA -exprS -subSn // subSS.
Qed.

Lemma expected_path (r : seq T -> T -> R) f n z : expected f (path r n.+1 z) =
  expected (fun b => expected (fun x => f (b :: x)) (path r n (rcons z b))) (draw (r z)).
Proof.
rewrite [path _ _ _]/= expected_bind; apply: eq_expected => b; rewrite expected_bind.
by apply: eq_expected => x; rewrite expected_ret.
Qed.
Lemma size_possible_path (r : seq T -> T -> R) n z x : possible (path r n z) x -> size x = n.
Proof.
elim: n z x => [|n IH] z x /= can; first by rewrite (possible_ret can).
have [a _ {}can] := possible_bind can; have [y /IH size_y {}can] := possible_bind can.
by rewrite (possible_ret can) /= size_y.
Qed.
Lemma after_cons a b x paths :
  after a ((b :: x) :: paths) = if b == a then x :: after a paths else after a paths.
Proof. by rewrite /after /=; case: eqP. Qed.

(* Paths through a node that go on with a: their next tokens, and what follows a. *)
Lemma expected_paths k n z a (g : seq T -> R) (h : seq (seq T) -> R) :
  expected (fun paths => g (siblings paths) * h (after a paths)) (independent (path q n.+1 z) k) =
  expected (fun s => g s * expected h (independent (path q n (rcons z a)) (count_mem a s)))
    (independent (draw (q z)) k).
Proof.
elim: k g h => [|k IH] g h; first by rewrite /= !expected_ret.
rewrite !expected_independent expected_path; apply: eq_expected => b.
under eq_expected => t do under eq_expected => s do rewrite after_cons.
have [->|ne] := eqVneq b a.
  under eq_expected => t do rewrite (IH (fun s => g (a :: s)) (fun paths => h (t :: paths))).
  rewrite expected_swap; apply: eq_expected => s.
  by rewrite expected_mull /= eqxx add1n expected_independent.
under eq_expected => t do rewrite (IH (fun s => g (b :: s)) h).
under [in RHS]eq_expected => s do rewrite /= (negbTE ne) add0n.
by rewrite expected_const (proj2 (law_path complete q_model n _)) mul1r.
Qed.

Section Choice.
Variable choose : choice (field_numbers R) T.
Hypothesis chosen : chooses choose.
Local Notation select := (select choose).
Local Notation selected := (@selected (field_numbers R) T vocabulary choose q).
Local Notation grow := (@grow (field_numbers R) T vocabulary choose q).

(* Of k siblings, a is chosen and i are a. *)
Definition chance z k a i : R :=
  expected (fun s => probability (pred1 a) (choose z s) * (count_mem a s == i)%:R)
    (independent (draw (q z)) k).

Lemma not_chosen z s a : a \notin s -> probability (pred1 a) (choose z s) = 0.
Proof.
move=> not_in; have [_ _ among] := chosen z s.
rewrite -[RHS](expected_zero (choose z s)); apply: eq_expected_possible => b /among b_in /=.
by case: eqP b_in not_in => // -> ->.
Qed.
Lemma nonnegative_select n z paths : nonnegative (select n z paths).
Proof.
elim: n z paths => [|n IH] z paths /=; first exact: nonnegative_ret.
have [choose0 _ _] := chosen z (siblings paths).
by apply: nonnegative_bind => // a; apply: nonnegative_bind => // x; apply: nonnegative_ret.
Qed.
Lemma nonnegative_selected count n : nonnegative (selected count n).
Proof.
apply: nonnegative_bind => [|paths]; last exact: nonnegative_select.
by case: (law_independent count (law_path complete q_model n [::])).
Qed.

Lemma mem_siblings a paths : (a \in siblings paths) = has (fun x => ohead x == Some a) paths.
Proof.
elim: paths => [|[|b x] paths IH] //=; rewrite in_cons IH; congr (_ || _).
by apply/eqP/eqP => [->|[]].
Qed.
Lemma mem_after a x paths : (x \in after a paths) = (a :: x \in paths).
Proof.
elim: paths => [|[|b y] paths IH] //; rewrite after_cons [RHS]in_cons eqseq_cons [a == b]eq_sym.
by case: (b == a); rewrite //= in_cons IH.
Qed.
(* Whatever is selected from one or more paths of n tokens is one of these paths. *)
Theorem selected_drafted n z paths x : paths != [::] -> all (fun y => size y == n) paths ->
  possible (select n z paths) x -> x \in paths.
Proof.
elim: n z paths x => [|n IH] z paths x some.
  case: paths some => [|y paths] //= _ /andP[/nilP -> _] can.
  by rewrite (possible_ret can) mem_head.
move=> sizes /= can; have [a a_can {}can] := possible_bind can.
have [y y_can {}can] := possible_bind can; rewrite (possible_ret can) -mem_after.
apply: IH y_can; last first.
  by apply/allP => u; rewrite mem_after => /(allP sizes).
have [_ _ /(_ a a_can)] := chosen z (siblings paths).
rewrite mem_siblings => /hasP[[|b u] // u_in /eqP[ab]].
by apply/negP => /eqP none; move: u_in; rewrite ab -mem_after none.
Qed.

Lemma expected_select f n z paths : expected f (select n.+1 z paths) =
  \sum_a probability (pred1 a) (choose z (siblings paths)) *
    expected (fun x => f (a :: x)) (select n (rcons z a) (after a paths)).
Proof.
rewrite [select _ _ _]/= expected_bind expected_each; apply: eq_bigr => a _; congr (_ * _).
by rewrite expected_bind; apply: eq_expected => x; rewrite expected_ret.
Qed.

(* Selection from k paths drawn beforehand has the same law as selection from a tree that draws
   siblings on demand: k at the root and, after a token, as many as there are copies of it. *)
Theorem grow_select f n z k : expected f (grow n z k) =
  expected (fun paths => expected f (select n z paths)) (independent (path q n z) k).
Proof.
elim: n z k f => [|n IH] z k f.
  rewrite [grow _ _ _]/= expected_ret.
  by rewrite expected_const (proj2 (law_independent _ (law_path complete q_model _ _))) mul1r.
under [RHS]eq_expected => paths do rewrite expected_select.
rewrite expected_sum [LHS]expected_bind; under eq_expected => s.
  rewrite expected_bind expected_each; under eq_bigr => a _.
    rewrite expected_bind; under eq_expected => x do rewrite expected_ret.
    rewrite (IH _ _ (fun x => f (a :: x))); over.
  over.
rewrite expected_sum; apply: eq_bigr => a _.
rewrite (expected_paths k n z a (fun s => probability (pred1 a) (choose z s))
  (fun paths => expected (fun x => f (a :: x)) (select n (rcons z a) paths))).
by [].
Qed.

(* The same of paths drawn from the draft. *)
Lemma possible_select K n drafted x : (0 < K)%N ->
  possible (independent (path q n [::]) K) drafted ->
  possible (select n [::] drafted) x -> x \in drafted.
Proof.
move=> some /possible_independent[size_K lengths] can; apply: selected_drafted can.
  by rewrite -size_eq0 size_K -lt0n.
by apply: lengths => y /size_possible_path->.
Qed.

Variable count : nat.
Local Notation K := count.

(* The sum over the number of copies of a. *)
Lemma each_count z a k (h : nat -> R) : (k < K)%N ->
  expected (fun s => probability (pred1 a) (choose z s) * h (count_mem a s))
    (independent (draw (q z)) k.+1) = \sum_(i < K) chance z k.+1 a i.+1 * h i.+1.
Proof.
move=> k_lt; rewrite /chance; under [RHS]eq_bigr => i _ do rewrite -expected_mulr.
rewrite -expected_sum; apply: eq_expected_possible => s can.
have [size_s _] := possible_independent can.
case E: (count_mem a s) => [|j].
  have a_out : a \notin s by rewrite -has_pred1 has_count E.
  by rewrite not_chosen // mul0r big1 // => i _; rewrite !mul0r.
have j_lt : (j < K)%N.
  by apply: leq_trans k_lt; rewrite -E -size_s count_size.
rewrite (bigD1 (Ordinal j_lt)) //= eqxx mulr1 big1 ?addr0 // => i ne.
have -> : (j.+1 == i.+1) = false.
  by apply/negP => /eqP[ji]; move/eqP: ne; apply; apply: val_inj.
by rewrite mulr0 mul0r.
Qed.
Lemma total_chance z k : (k < K)%N -> \sum_a \sum_(i < K) chance z k.+1 a i.+1 = 1.
Proof.
move=> k_lt; transitivity (\sum_a expected (fun s => probability (pred1 a) (choose z s) * 1)
    (independent (draw (q z)) k.+1)).
  apply: eq_bigr => a _; rewrite (each_count z a (fun=> 1)) //.
  by apply: eq_bigr => i _; rewrite mulr1.
rewrite -expected_sum -[RHS](proj2 (law_independent k.+1 (law_draw_row complete (q_model z)))).
apply: eq_expected_possible => s can; have [size_s _] := possible_independent can.
rewrite -expected_each; have [_ -> //] := chosen z s.
by rewrite -size_eq0 size_s.
Qed.

(* alive z k: the probability that z is selected, and that k paths share it. *)
Section Alive.
Variables (alive : seq T -> nat -> R) (rows : seq T -> T -> R).
Let reach z := \sum_(k < K) alive z k.+1.
Hypothesis alive_root : forall k : 'I_K, alive [::] k.+1 = (k.+1 == K)%:R.
Hypothesis alive_step : forall z a (i : 'I_K),
  alive (rcons z a) i.+1 = \sum_(k < K) alive z k.+1 * chance z k.+1 a i.+1.
Hypothesis rows_model : is_model rows.
Hypothesis rows_next : forall z a, rows z a * reach z = reach (rcons z a).
Hypothesis some : (0 < K)%N.

Lemma reach_root : reach [::] = 1.
Proof.
rewrite /reach; under eq_bigr do rewrite alive_root; case: K some => // k _.
rewrite big_ord_recr /= eqxx big1 ?add0r // => i _.
by rewrite eqSS ltn_eqF.
Qed.
Lemma reach_next z : \sum_a reach (rcons z a) = reach z.
Proof.
rewrite /reach; under eq_bigr => a _ do under eq_bigr => i _ do rewrite alive_step.
under eq_bigr do rewrite exchange_big /=.
rewrite exchange_big; apply: eq_bigr => k _ /=.
under eq_bigr do rewrite -mulr_sumr.
by rewrite -mulr_sumr total_chance ?mulr1.
Qed.
Lemma reach_text x z : text (N := field_numbers R) rows z x * reach z = reach (z ++ x).
Proof.
elim: x z => [|a x IH] z /=; first by rewrite cats0 mul1r.
by rewrite mulrAC rows_next mulrC IH cat_rcons.
Qed.

Lemma selected_from n z f :
  \sum_(k < K) alive z k.+1 * expected (fun paths => expected f (select n z paths))
    (independent (path q n z) k.+1) = reach z * expected f (path rows n z).
Proof.
elim: n z f => [|n IH] z f.
  have -> : expected f (path rows 0 z) = f [::] by apply: expected_ret.
  rewrite mulr_suml; apply: eq_bigr => k _; congr (_ * _).
  by rewrite expected_const (proj2 (law_independent _ (law_path complete q_model _ _))) mul1r.
pose below a i := expected (fun paths => expected (fun x => f (a :: x))
  (select n (rcons z a) paths)) (independent (path q n (rcons z a)) i).
have step (k : 'I_K) : expected (fun paths => expected f (select n.+1 z paths))
    (independent (path q n.+1 z) k.+1) =
    \sum_a \sum_(i < K) chance z k.+1 a i.+1 * below a i.+1.
  under eq_expected => paths do rewrite expected_select.
  rewrite expected_sum; apply: eq_bigr => a _; rewrite -each_count //.
  exact: (expected_paths k.+1 n z a (fun s => probability (pred1 a) (choose z s))
    (fun paths => expected (fun x => f (a :: x)) (select n (rcons z a) paths))).
under eq_bigr => k _ do rewrite step mulr_sumr.
rewrite exchange_big [expected f _]expected_path (expected_draw_row complete) // mulr_sumr.
apply: eq_bigr => a _ /=; rewrite mulrA [reach z * _]mulrC rows_next.
rewrite -(IH (rcons z a) (fun x => f (a :: x))).
under eq_bigr => k _ do rewrite mulr_sumr.
rewrite exchange_big; apply: eq_bigr => i _; rewrite alive_step mulr_suml.
by apply: eq_bigr => k _; rewrite mulrA.
Qed.

(* Let alive z k be K at the root and follow the choice, as the probability that z is selected and
   shared by k paths does, and let rows be a model with which the sum of alive z k over 1 <= k <= K,
   times rows(a|z), is that sum for za: then the selected path of n tokens has the law of a path
   drawn from rows. *)
Theorem selected_alive n : selects vocabulary rows n (selected K n).
Proof.
move=> f; rewrite expected_bind -[RHS]mul1r -reach_root -selected_from.
under eq_bigr do rewrite alive_root; case: K some => // k _.
rewrite big_ord_recr /= eqxx mul1r big1 ?add0r // => i _.
by rewrite eqSS ltn_eqF // mul0r.
Qed.
(* The probability that the selected path of n tokens starts with z is the sum of alive z k over
   1 <= k <= K, alive z k being the probability that z is selected and shared by k paths, if z has
   at most n tokens, and else 0. *)
Theorem selected_starts n z : probability (prefix z) (selected K n) =
  if (size z <= n)%N then reach z else 0.
Proof.
rewrite /probability selected_alive -/(probability _ _) (path_prefix complete) //.
by rewrite -[text _ _ _]mulr1 -reach_root reach_text.
Qed.
End Alive.
End Choice.
End Selection.

(* --------------------------------------------------------------------------- the highest-ranked *)
Section Highest.
Variable T : eqType.
Variable rank : T -> nat.
Implicit Types (a b : T) (s : seq T).

Lemma highest_in s a : highest rank s = Some a -> a \in s.
Proof.
elim: s a => [|b s IH] a //=; case: (highest rank s) IH => [c|] IH; rewrite inE.
  by case: ifP => _ [<-]; rewrite ?eqxx // (IH c) ?orbT.
by move=> [->]; rewrite eqxx.
Qed.
Lemma highest_none s : highest rank s = None -> s = [::].
Proof. by case: s => [|a s] //=; case: (highest rank s). Qed.
Lemma highest_above s a : highest rank s = Some a -> all (fun b => (rank b <= rank a)%N) s.
Proof.
elim: s a => [|b s IH] a //=; case E: (highest rank s) => [c|].
  case: ltnP => [bc|cb] [<-]; first by rewrite (ltnW bc) IH.
  by rewrite leqnn; apply: sub_all (IH c E) => d /leq_trans; apply.
by rewrite (highest_none E) => -[->]; rewrite /= leqnn.
Qed.
(* With a strict order, a token is the highest if it is there and all others are below it. *)
Lemma highestE s a : {in a :: s &, injective rank} ->
  (highest rank s == Some a) = (a \in s) && all (fun b => (b == a) || (rank b < rank a)%N) s.
Proof.
move=> strict; apply/eqP/andP => [top|[a_in low]].
  have a_in := highest_in top; split=> //; apply/allP => b b_in.
  have := allP (highest_above top) b b_in; rewrite leq_eqVlt => /orP[/eqP same|->].
    have -> : b = a by apply: strict same; rewrite inE ?eqxx ?b_in ?orbT.
    by rewrite eqxx.
  by rewrite orbT.
case E: (highest rank s) => [c|]; last by rewrite (highest_none E) in a_in.
have c_in := highest_in E; congr Some; apply/eqP.
have /orP[//|] := allP low c c_in.
by rewrite ltnNge (allP (highest_above E) a a_in).
Qed.
End Highest.

Lemma index_same (T : eqType) (s : seq T) a b :
  a \in s -> b \in s -> index a s = index b s -> a = b.
Proof. by move=> a_in b_in same; rewrite -(nth_index a a_in) same nth_index. Qed.

(* Tokens that can be drafted have different ranks. *)
Definition strict (R : realFieldType) (T : finType) (q : seq T -> T -> R)
    (rank : seq T -> T -> nat) :=
  forall z a b, q z a != 0 -> q z b != 0 -> rank z a = rank z b -> a = b.

Lemma strict_injective (R : realFieldType) (T : finType) (q : seq T -> T -> R) rank :
  (forall z, injective (rank z)) -> strict q rank.
Proof. by move=> rank_inj z a b _ _; apply: rank_inj. Qed.

(* Every list of the tokens that can be drafted is such an order. *)
Lemma strict_in_order (R : realFieldType) (T : finType) (q : seq T -> T -> R) order :
  (forall z a, q z a != 0 -> a \in order z) -> strict q (in_order order).
Proof. by move=> all_in z a b /all_in a_in /all_in b_in; apply: index_same. Qed.

Section ByRatio.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypothesis q0 : forall z a, 0 <= q z a.
Local Notation by_ratio := (@by_ratio (field_numbers R) T vocabulary p q).
Let ratio z a := p z a / q z a.

Lemma mem_by_ratio z a : (a \in by_ratio z) = (q z a != 0).
Proof.
rewrite mem_sort mem_filter (perm_mem complete) mem_enum inE andbT /=.
by rewrite -ltNge lt_def q0 andbT.
Qed.
Lemma uniq_by_ratio z : uniq (by_ratio z).
Proof. by rewrite sort_uniq filter_uniq // (perm_uniq complete) enum_uniq. Qed.

(* Of two tokens that can be drafted, a is lower than b in the order by ratio if and only if
   p(a)/q(a) < p(b)/q(b), or the two are equal and a comes before b in the vocabulary. *)
Theorem by_ratioE z a b : q z a != 0 -> q z b != 0 ->
  (in_order by_ratio z a < in_order by_ratio z b)%N =
  (ratio z a < ratio z b) ||
  (ratio z a == ratio z b) && (index a vocabulary < index b vocabulary)%N.
Proof.
move=> qa qb; pose place c := index c vocabulary.
pose low c d := (ratio z c <= ratio z d) && ~~ ((ratio z d <= ratio z c) && (place d < place c)%N).
have lowE c d : low c d =
    (ratio z c < ratio z d) || (ratio z c == ratio z d) && (place c <= place d)%N.
  by rewrite /low; case: ltgtP => //= _; rewrite -leqNgt.
have low_total : ssrbool.total low.
  move=> c d; rewrite !lowE; case: ltgtP => //= _; exact: leq_total.
have low_trans : transitive low.
  move=> c d e; rewrite !lowE => /orP[dc|/andP[/eqP dc dc']] /orP[ce|/andP[/eqP ce ce']].
  - by rewrite (lt_trans dc ce).
  - by rewrite -ce dc.
  - by rewrite dc ce.
  - by rewrite dc ce eqxx (leq_trans dc' ce') orbT.
have sorted_low : sorted low (by_ratio z) by apply: sort_sorted.
have low_refl : reflexive low by move=> c; rewrite lowE eqxx leqnn orbT.
have ain : a \in by_ratio z by rewrite mem_by_ratio.
have bin : b \in by_ratio z by rewrite mem_by_ratio.
have placed c : c \in vocabulary by rewrite (perm_mem complete) mem_enum.
have index_low c d : c \in by_ratio z -> d \in by_ratio z ->
    (in_order by_ratio z c <= in_order by_ratio z d)%N -> low c d.
  by move=> c_in d_in; apply: (sorted_leq_index low_trans low_refl sorted_low).
rewrite -/(place a) -/(place b); apply/idP/idP => [lt|].
  have := index_low a b ain bin (ltnW lt); rewrite lowE; case: ltgtP => //= _.
  rewrite leq_eqVlt => /orP[/eqP same|//].
  by move: lt; rewrite (index_same (placed a) (placed b) same) ltnn.
apply: contraLR; rewrite -leqNgt => /(index_low b a bin ain); rewrite lowE.
by case: ltgtP => //= _; rewrite -leqNgt.
Qed.
Lemma strict_by_ratio : strict q (in_order by_ratio).
Proof. by apply: strict_in_order => z a; rewrite mem_by_ratio. Qed.
End ByRatio.

(* --------------------------------------------------------- greedy multi-path block verification *)
Section Theorems.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Variable rank : seq T -> T -> nat.
Hypothesis rank_strict : strict q rank.
Variable count : nat.
Hypothesis some : (0 < count)%N.
Local Notation K := count.
Local Notation law := (law (field_numbers R)).
Local Notation draw := (@draw (field_numbers R) T vocabulary).
Local Notation go_to_highest := (go_to_highest (field_numbers R) rank).
Local Notation lower := (@lower (field_numbers R) T vocabulary rank q).
Local Notation standing_after :=
  (@standing_after (field_numbers R) T vocabulary rank q).
Local Notation standing := (@standing (field_numbers R) T vocabulary rank q).
Local Notation skewed := (@skewed (field_numbers R) T vocabulary rank q K).
Local Notation selected := (@selected (field_numbers R) T vocabulary go_to_highest q K).
Local Notation multipath_block :=
  (@multipath_block (field_numbers R) T vocabulary rank p q K).
Implicit Types (z x s : seq T) (a b : T).

Let q0 z a : 0 <= q z a. Proof. by case: (q_model z). Qed.

Lemma highest_chosen : chooses go_to_highest.
Proof.
move=> z s; rewrite /go_to_highest; case E: (highest _ s) => [a|].
  split=> [|_|b can]; [exact: nonnegative_ret|by rewrite expected_ret|].
  by rewrite (possible_ret can); apply: highest_in E.
by rewrite (highest_none E); split=> // a [].
Qed.
Lemma lowerE z a : lower z a = \sum_(b | (rank z b < rank z a)%N) q z b.
Proof. by rewrite /lower (totalE complete) [RHS]big_mkcond. Qed.
Lemma lower_ge0 z a : 0 <= lower z a.
Proof. by rewrite lowerE sumr_ge0. Qed.

Lemma chance_highest z k a i :
  chance vocabulary q go_to_highest z k a i.+1
  = 'C(k, i.+1)%:R * q z a ^+ i.+1 * lower z a ^+ (k - i.+1).
Proof.
rewrite lowerE -(binomial complete q_model) ?ltnn // /chance /probability.
apply: eq_expected_possible => s can; have [_ drafted] := possible_independent can.
have {}drafted : all (fun b => q z b != 0) s.
  apply: drafted => b /possible_draw.
  by rewrite /normalised /= mulf_eq0 negb_or => /andP[].
case: (eqVneq (count_mem a s) i.+1) => [copies|_]; last by rewrite mulr0.
have a_in : a \in s by rewrite -has_pred1 has_count copies.
have same := @highestE _ (rank z) s a; rewrite a_in /= in same.
rewrite mulr1 -same; last first.
  have sub b : b \in a :: s -> q z b != 0.
    by rewrite inE => /orP[/eqP->|b_in]; apply: (allP drafted).
  by move=> b c /sub qb /sub qc; apply: rank_strict.
rewrite /go_to_highest; case: (highest _ s) => [b|]; last by rewrite expected_nil.
by rewrite expected_ret.
Qed.

(* The mass of the paths ranked below z, and the draft's joint probability of z. *)
Definition below z : R := (standing z).1.
Definition mass z : R := (standing z).2.

Lemma standing_rcons z a :
  standing (rcons z a) = (below z + mass z * lower z a, mass z * q z a).
Proof.
rewrite /below /mass /standing.
have after_ y u v : standing_after y (rcons z a) u v =
    ((standing_after y z u v).1 + (standing_after y z u v).2 * lower (y ++ z) a,
     (standing_after y z u v).2 * q (y ++ z) a).
  elim: z y u v => [|b z IH] y u v /=; first by rewrite cats0.
  by rewrite IH cat_rcons.
exact: after_.
Qed.
Lemma standing_ge0 z : 0 <= below z /\ 0 <= mass z.
Proof.
elim/last_ind: z => [|z a [b0 m0]]; first by rewrite /below /mass /standing /= lexx ler01.
by rewrite /below /mass standing_rcons /= addr_ge0 ?mulr_ge0 ?lower_ge0.
Qed.
Lemma massE z : mass z = text (N := field_numbers R) q [::] z.
Proof.
elim/last_ind: z => [|z a IH] //; rewrite text_rcons -IH.
by rewrite /mass standing_rcons.
Qed.

(* Paths are ranked below z where they first go another way. *)
Fixpoint ranked_below y z x : bool :=
  if (z, x) is (a :: z', b :: x') then
    if b == a then ranked_below (rcons y a) z' x' else (rank y b < rank y a)%N
  else false.
(* The mass that stands below z is the probability that a drafted path ranks below it: that a path
   of n tokens, at least as many as z has, first leaves z at a token ranked lower than that of z. *)
Theorem belowE n z : (size z <= n)%N ->
  below z = probability (ranked_below [::] z) (path vocabulary q n [::]).
Proof.
have from y x u v k : (size x <= k)%N -> (standing_after y x u v).1 =
    u + v * probability (ranked_below y x) (path vocabulary q k y).
  elim: x y u v k => [|a x IH] y u v k len.
    rewrite [probability _ _](_ : _ = 0) ?mulr0 ?addr0 //.
    by rewrite -[RHS](expected_zero (path vocabulary q k y)); apply: eq_expected.
  case: k len => [//|k] len; rewrite [standing_after _ _ _ _]/= (IH _ _ _ k len).
  rewrite -addrA -mulrA -mulrDr; congr (_ + _ * _).
  rewrite /probability [RHS](@expected_path _ _ vocabulary) (expected_draw_row complete) //.
  rewrite (bigD1 a) //= eqxx addrC; congr (_ + _).
  rewrite lowerE big_mkcond (bigD1 a) //= ltnn add0r; apply: eq_bigr => b ne.
  rewrite (negbTE ne) expected_const (proj2 (law_path complete q_model k _)) mul1r.
  by case: ifP; rewrite ?mulr1 ?mulr0.
by move=> len; rewrite /below /standing (from _ _ _ _ n len) add0r mul1r.
Qed.

(* The number of paths that share z has a binomial law, if no path is ranked above z. *)
Definition alive z k : R := 'C(K, k)%:R * mass z ^+ k * below z ^+ (K - k).
Definition reach z : R := (below z + mass z) ^+ K - below z ^+ K.

Lemma reachE z : \sum_(k < K) alive z k.+1 = reach z.
Proof.
rewrite /reach exprDn big_ord_recl /= subn0 expr0 mulr1 bin0 mulr1n addrAC subrr add0r.
apply: eq_bigr => k _; rewrite /alive /bump /= add1n -[in RHS]mulr_natl -mulrA; congr (_ * _).
by rewrite mulrC.
Qed.
Lemma bin_twice k i : (i <= k <= K)%N -> ('C(K, k) * 'C(k, i) = 'C(K, i) * 'C(K - i, k - i))%N.
Proof.
move=> /andP[ik kK]; have iK := leq_trans ik kK.
have pos : (0 < i`! * ((k - i)`! * (K - k)`!))%N by rewrite !muln_gt0 !fact_gt0.
apply/eqP; rewrite -(eqn_pmul2r pos); apply/eqP.
transitivity K`!.
  by rewrite -(bin_fact kK) -(bin_fact ik) -!mulnA.
rewrite -(bin_fact iK) -(@bin_fact (K - i) (k - i)) ?leq_sub2r //.
have -> : (K - i - (k - i) = K - k)%N by rewrite subnBA // subnK.
rewrite -!mulnA; congr (_ * _)%N.
by rewrite [RHS]mulnCA.
Qed.
Lemma alive_next z a (i : 'I_K) : alive (rcons z a) i.+1 =
  \sum_(k < K) alive z k.+1 * chance vocabulary q go_to_highest z k.+1 a i.+1.
Proof.
transitivity (\sum_(k < K.+1) alive z k *
    ('C(k, i.+1)%:R * q z a ^+ i.+1 * lower z a ^+ (k - i.+1))); last first.
  rewrite big_ord_recl /= bin0n mulr0n !mul0r mulr0 add0r; apply: eq_bigr => k _.
  by rewrite chance_highest.
move: {i}(i.+1 : nat) (ltn_ord i : (i.+1 <= K)%N) => i iK.
rewrite -(big_mkord xpredT (fun k => alive z k *
  ('C(k, i)%:R * q z a ^+ i * lower z a ^+ (k - i)))) (@big_cat_nat _ _ _ i) //=; last exact: leqW.
rewrite big_nat_cond big1 ?add0r => [|k /andP[/andP[_ ki] _]]; last first.
  by rewrite bin_small // mulr0n !mul0r mulr0.
have shift (f : nat -> R) : \sum_(i <= k < K.+1) f k = \sum_(j < (K - i).+1) f (j + i)%N.
  by rewrite -{1}[i]add0n big_addn subSn // big_mkord.
rewrite shift.
rewrite /alive /below /mass standing_rcons /= -/(below z) -/(mass z).
rewrite addrC exprDn mulr_sumr [LHS](reindex_inj rev_ord_inj) /=.
apply: eq_bigr => j _; rewrite subSS addnK.
have jK : (j <= K - i)%N by rewrite -ltnS.
have -> : (K - i - (K - i - j) = j)%N by rewrite subKn.
have -> : (K - (j + i) = K - i - j)%N by rewrite addnC subnDA.
rewrite bin_sub // !exprMn exprD -[_ *+ 'C(K - i, j)]mulr_natl.
have := @bin_twice (j + i) i; rewrite leq_addl addnK addnC -leq_subRL // jK addnC => /(_ isT).
move=> /(congr1 (fun n => n%:R : R)); rewrite !natrM => twice.
transitivity ('C(K, i)%:R * 'C(K - i, j)%:R * (mass z ^+ i * q z a ^+ i * (mass z ^+ j *
  lower z a ^+ j * below z ^+ (K - i - j)))).
  by rewrite mulrACA.
rewrite -twice; move: ('C(K, _)%:R : R) ('C(_, i)%:R : R) => c d.
move: (mass z ^+ i) (mass z ^+ j) (q z a ^+ i) (lower z a ^+ j) (below z ^+ _) => mi mj qi fj b.
rewrite -!mulrA; congr (_ * _); rewrite [b * _]mulrC -!mulrA [mi * (d * _)]mulrCA.
by rewrite [mj * (d * _)]mulrCA [mj * (mi * _)]mulrCA [mj * (qi * _)]mulrCA.
Qed.

Lemma reach_ge0 z : 0 <= reach z.
Proof.
have [b0 m0] := standing_ge0 z; rewrite -reachE sumr_ge0 // => k _.
by rewrite !mulr_ge0 ?ler0n ?exprn_ge0.
Qed.
Let weights z a : R := difference (N := field_numbers R) K
  (below z + mass z * lower z a + mass z * q z a) (below z + mass z * lower z a).
Lemma weightsE z a : weights z a = reach (rcons z a).
Proof. by rewrite /weights /difference /= !powerE /reach /below /mass standing_rcons. Qed.
Lemma skewedE z : skewed z = completed (N := field_numbers R) vocabulary (weights z) (q z).
Proof. by rewrite /skewed /weights /below /mass; case: (standing z). Qed.

(* The skewed model is a model: after every context its numbers are nonnegative and sum to 1. *)
Theorem skewed_model : is_model skewed.
Proof.
move=> z; rewrite skewedE; apply: (completed_row complete) (q_model z) => a.
by rewrite weightsE reach_ge0.
Qed.
Lemma total_reach z : \sum_a reach (rcons z a) = reach z.
Proof.
under eq_bigr do rewrite -reachE; rewrite -reachE.
exact: (reach_next complete q_model highest_chosen alive_next).
Qed.
Lemma skewed_next z a : skewed z a * reach z = reach (rcons z a).
Proof.
rewrite skewedE -total_reach -weightsE; under eq_bigr do rewrite -weightsE.
by rewrite (completedE complete) // => b; rewrite weightsE reach_ge0.
Qed.
(* Where z can be selected, the skewed model's row is
   Q'(a|z) = ((B + m (F + q(a|z)))^K - (B + m F)^K) / ((B + m)^K - B^K), m being the draft's
   probability of z, B the probability that a drafted path ranks below z, and F the draft's mass of
   the tokens ranked below a after z. *)
Theorem skewed_row z a : let B := below z in let m := mass z in let F := lower z a in
  (B + m) ^+ K - B ^+ K != 0 ->
  skewed z a = ((B + m * (F + q z a)) ^+ K - (B + m * F) ^+ K) / ((B + m) ^+ K - B ^+ K).
Proof.
move=> B m F can; apply: (mulIf can); rewrite divfK // skewed_next.
by rewrite /reach /below /mass standing_rcons /= -addrA -mulrDr.
Qed.

Let root (k : 'I_K) : alive [::] k.+1 = (k.+1 == K)%:R.
Proof.
rewrite /alive /below /mass /standing /= expr1n mulr1 expr0n subn_eq0.
rewrite eqn_leq ltn_ord /=; case: leqP => [Kk|_]; last by rewrite mulr0.
have -> : k.+1 = K by apply/eqP; rewrite eqn_leq ltn_ord Kk.
by rewrite binn mulr1.
Qed.
Let next z a : skewed z a * (\sum_(k < K) alive z k.+1) = \sum_(k < K) alive (rcons z a) k.+1.
Proof. by rewrite !reachE skewed_next. Qed.

(* The path selected by going to the highest-ranked token has the law of a path of as many tokens
   drawn from the skewed model. *)
Theorem selected_skewed n : selects vocabulary skewed n (selected n).
Proof.
exact: (selected_alive complete q_model highest_chosen root alive_next skewed_model next some n).
Qed.
(* The path selected by going to the highest-ranked token starts with z with the probability
   (B + q(z))^K - B^K, q(z) being the draft's probability of z and B that of the paths ranked below
   z, if z has at most as many tokens as the paths, and else with the probability 0. *)
Theorem selected_highest_starts n z : probability (prefix z) (selected n) =
  if (size z <= n)%N then (below z + mass z) ^+ K - below z ^+ K else 0.
Proof.
rewrite (selected_starts complete q_model highest_chosen root alive_next skewed_model next) //.
by rewrite reachE.
Qed.

(* The path selected by going to the highest-ranked token is one of the K > 0 paths drafted. *)
Theorem highest_drafted n drafted x :
  possible (independent (path vocabulary q n [::]) K) drafted ->
  possible (select go_to_highest n [::] drafted) x -> x \in drafted.
Proof. exact: (possible_select highest_chosen some). Qed.

(* The outcome of greedy multi-path block verification has the law of that of block verification of
   one path drawn from the skewed model. *)
Theorem multipath_block_outcome n f :
  expected f (multipath_block n) = expected f (block vocabulary p skewed n).
Proof. exact: selected_block (selected_skewed n). Qed.
(* At least x is accepted by greedy multi-path block verification with block verification's
   probability, with the law Q' of the selected path in place of q: Q'(x) w(x), where w is 1 at the
   root and w(za) = min(1, w(z) p(a|z) / Q'(a|z)), and 0 if x is longer than the paths. *)
Theorem multipath_block_accepts n x : accepts x (multipath_block n) =
  if (size x <= n)%N then kept_mass (N := field_numbers R) p skewed x [::] 1 else 0.
Proof.
rewrite -(block_accepts complete p_model skewed_model).
exact: multipath_block_outcome.
Qed.
(* Exactly x is accepted by greedy multi-path block verification and a is next with block
   verification's probability, with the law Q' of the selected path in place of q:
   Q'(x) max(w(x) p(a|x) - Q'(a|x), 0) if x is shorter than the paths, Q'(x) w(x) p(a|x) if it is as
   long, w being 1 at the root and w(za) = min(1, w(z) p(a|z) / Q'(a|z)), and 0 if it is longer. *)
Theorem multipath_block_ends n x a :
  ends x a (multipath_block n) = end_mass p skewed n x a [::] 1.
Proof.
rewrite -(block_ends complete p_model skewed_model).
exact: multipath_block_outcome.
Qed.
(* The outcome of greedy multi-path block verification is a law: its weights are nonnegative and sum
   to 1. *)
Theorem multipath_block_law n : is_law (multipath_block n).
Proof.
apply: (selected_block_law complete p_model skewed_model) (selected_skewed n).
exact: (nonnegative_selected complete q_model highest_chosen).
Qed.
(* With greedy multi-path block verification, in any strict order of the tokens that can be drafted,
   the text has the target's law at every horizon. *)
Theorem multipath_block_lossless n : lossless p (multipath_block n).
Proof. exact: (selected_block_lossless complete p_model skewed_model (selected_skewed n)). Qed.
(* Greedy multi-path block verification is balanced: after every x, that xa is accepted and that x
   alone is accepted with a next have together the probability P(x is accepted) p(a|x). *)
Theorem multipath_block_balanced n : balanced p (multipath_block n).
Proof.
apply/(lossless_balanced p (multipath_block_law n)); exact: multipath_block_lossless.
Qed.
End Theorems.

(* ------------------------------------------------------------------------ the reference's order *)
Section MultipathByRatio.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Variable count : nat.
Hypothesis some : (0 < count)%N.
Local Notation by_ratio := (by_ratio (N := field_numbers R) vocabulary p q).

(* With the reference's order of the tokens, the lowest p/q first and equals as they come in the
   vocabulary, greedy multi-path block verification of K > 0 paths of n tokens is a law, is balanced
   and gives the text the target's law at every horizon. *)
Theorem multipath_block_by_ratio n :
  let m := multipath_block (N := field_numbers R) vocabulary (in_order by_ratio) p q count n in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
have rank_strict : strict q (in_order by_ratio).
  by apply: strict_by_ratio => // z a; case: (q_model z).
split.
- exact: multipath_block_law.
- exact: multipath_block_balanced.
exact: multipath_block_lossless.
Qed.
End MultipathByRatio.
