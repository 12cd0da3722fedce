(* What a verifier of several paths gives up if it cannot see the rows off the path that it selects.

   A rule selects one of K independent paths, for every pair of models. Its law is computable along
   the path if the probability of every whole path depends on no row but those along that path.
   Proved for every vocabulary, number and length of paths: the probability that the selected path
   starts with z then depends on no row but those at the proper prefixes of z. So where two worlds
   have the same rows at the root, such a rule selects the first token with one law in both. If all
   is lost after one of two tokens, after another one in each world, then no lossless verification
   of the selected path, whatever target it leaves, accepts in the mean of both worlds what a
   verifier of all paths accepts in each. With three tokens and two paths of two tokens the mean is
   at most 18/16 and the optimum is 19/16, in each world: scored multi-path block verification
   reaches the first, and a selection of the good token the second. The selection by scores is such
   a rule, whatever is passed on as owed, and so is that of greedy multi-path block verification.
   Draftproof's own. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission block descent selection.
From Draftproof Require greedy_block scored.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments expected : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---------------------------------------------------------------------------------- general *)
Section General.
Variable R : realFieldType.
Local Notation law := (law (field_numbers R)).

Lemma same_probability (A : eqType) (e : pred A) (m m' : law A) :
  (forall a, e a -> probability (pred1 a) m = probability (pred1 a) m') ->
  probability e m = probability e m'.
Proof.
move=> same; pose s := undup ([seq o.1 | o <- m] ++ [seq o.1 | o <- m']).
have in_map (l : law A) o : List.In o l -> o.1 \in [seq o.1 | o <- l].
  by elim: l => [|b l IH] //= [<-|/IH o_in]; rewrite in_cons ?eqxx ?o_in ?orbT.
rewrite /probability !(@greedy_block.expected_by_outcome _ _ (fun a => (e a)%:R) _ s).
- by apply: eq_bigr => a _; case: (boolP (e a)) => [/same->|] //; rewrite !mul0r.
- exact: undup_uniq.
- by move=> o o_in; rewrite mem_undup mem_cat (in_map m') ?orbT.
- exact: undup_uniq.
by move=> o o_in; rewrite mem_undup mem_cat (in_map m).
Qed.
Lemma probability_not A (e : pred A) (m : law A) : is_law m ->
  probability e m = 1 - probability (predC e) m.
Proof.
move=> [_ <-]; rewrite /probability -expected_sub; apply: eq_expected => a /=.
by case: (e a); rewrite ?subr0 ?subrr.
Qed.
Lemma same_off (A : eqType) (e : pred A) (m m' : law A) : is_law m -> is_law m' ->
  (forall a, ~~ e a -> probability (pred1 a) m = probability (pred1 a) m') ->
  probability e m = probability e m'.
Proof.
move=> m_law m'_law same; rewrite !(probability_not e) //; congr (_ - _).
exact: (@same_probability _ (predC e)).
Qed.
Lemma not_possible (A : eqType) (a : A) (m : law A) :
  ~ possible m a -> probability (pred1 a) m = 0.
Proof.
move=> no; rewrite -(expected_zero m); apply: eq_expected_possible => b /=.
by case: eqP => // ->.
Qed.
Lemma expected_one_of A (f : A -> R) (m : law A) a : nonnegative m -> (forall b, 0 <= f b) ->
  possible m a -> expected f m = 0 -> f a = 0.
Proof.
move=> + f0; elim: m => [|[b w] m IH] m0; first by case.
have w0 : 0 <= w by apply: (m0 (b, w)); left.
have rest0 : nonnegative m by move=> o o_in; apply: m0; right.
case=> v [[<- <-]|a_in] v0 /eqP.
  rewrite expected_cons paddr_eq0 ?mulr_ge0 ?expected_ge0 //= mulf_eq0 (negbTE v0) /=.
  by case/andP=> /eqP.
rewrite expected_cons paddr_eq0 ?mulr_ge0 ?expected_ge0 //= => /andP[_ /eqP].
by apply: IH => //; exists v.
Qed.
End General.

Lemma prefixes_nested (T : eqType) (y z x : seq T) : prefix y x -> prefix z x ->
  prefix z y || (prefix y z && (size y < size z)%N).
Proof.
rewrite !prefixE => /eqP yx /eqP zx; case: (leqP (size z) (size y)) => [zy|yz].
  by rewrite -yx take_take // zx eqxx.
by rewrite -zx take_take ?(ltnW yz) // yx eqxx orbT.
Qed.

(* ------------------------------------------------------------------- rules that select a path *)
Section Rules.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables count n : nat.
Local Notation K := count.
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Local Notation path := (@path (field_numbers R) T vocabulary).
Implicit Types (p q : model) (x y z : seq T) (a : T) (P : pred T).

Definition drafts q : law (seq (seq T)) := independent (path q n [::]) K.

(* For every pair of models, what is selected of drafted paths. *)
Definition rule := model -> model -> seq (seq T) -> law (seq T).
Implicit Type select : rule.
Definition picked select p q : law (seq T) := xs <- drafts q ;; select p q xs.

(* Of paths that can be drafted it selects one, by some law. *)
Definition is_selection select := forall p q xs, is_model p -> is_model q ->
  possible (drafts q) xs ->
  is_law (select p q xs) /\ forall x, possible (select p q xs) x -> x \in xs.

(* Where two pairs of models have the same rows along a path, this path is selected with the same
   probability. *)
Definition along_the_path select := forall p q p' q' x,
  is_model p -> is_model q -> is_model p' -> is_model q' -> size x = n ->
  (forall z, prefix z x -> p z =1 p' z /\ q z =1 q' z) ->
  probability (pred1 x) (picked select p q) = probability (pred1 x) (picked select p' q').

Lemma law_drafts q : is_model q -> is_law (drafts q).
Proof. by move=> q_ok; apply: law_independent; exact: law_path. Qed.
Lemma possible_drafts q xs : is_model q -> possible (drafts q) xs ->
  size xs = K /\ forall x, x \in xs -> size x = n /\ text (N := field_numbers R) q [::] x != 0.
Proof.
move=> q_ok /possible_independent[-> ok]; split=> // x x_in.
have /allP/(_ x x_in)/andP[/eqP-> ->] // : all (fun x => (size x == n) &&
  (text (N := field_numbers R) q [::] x != 0)) xs.
by apply: ok => y /(possible_path complete q_ok)[-> ->]; rewrite eqxx.
Qed.

Section Rule.
Variable select : rule.
Hypothesis selection : is_selection select.

Lemma law_picked p q : is_model p -> is_model q -> is_law (picked select p q).
Proof.
move=> p_ok q_ok; apply: law_bind_possible => [|xs can]; first exact: law_drafts.
by case: (selection p_ok q_ok can).
Qed.
Lemma size_picked p q x : is_model p -> is_model q -> possible (picked select p q) x ->
  size x = n /\ text (N := field_numbers R) q [::] x != 0.
Proof.
move=> p_ok q_ok can; have [xs xs_can {}can] := possible_bind can.
have [_ /(_ x can) x_in] := selection p_ok q_ok xs_can.
by have [_] := possible_drafts q_ok xs_can; apply.
Qed.

(* If the law of a selection is computable along the path, the probability that the selected path
   starts with z depends on no row but those at the prefixes of z, without z. *)
Theorem picked_starts p q p' q' z : along_the_path select ->
  is_model p -> is_model q -> is_model p' -> is_model q' ->
  (forall y, prefix y z -> (size y < size z)%N -> p y =1 p' y /\ q y =1 q' y) ->
  probability (prefix z) (picked select p q) = probability (prefix z) (picked select p' q').
Proof.
move=> along p_ok q_ok p'_ok q'_ok same.
pose graft (r r' : model) c := if prefix z c then r' c else r c.
have graft_ok (r r' : model) : is_model r -> is_model r' -> is_model (graft r r').
  by move=> r_ok r'_ok c; rewrite /graft; case: ifP.
have at_leaf r s r' s' x : is_model r -> is_model s -> is_model r' -> is_model s' ->
    (forall c, prefix c x -> r c =1 r' c /\ s c =1 s' c) ->
    probability (pred1 x) (picked select r s) = probability (pred1 x) (picked select r' s').
  move=> r_ok s_ok r'_ok s'_ok agree; have [sized|unsized] := eqVneq (size x) n.
    exact: along.
  by rewrite !not_possible // => /size_picked[] // /eqP; rewrite (negbTE unsized).
transitivity (probability (prefix z) (picked select (graft p p') (graft q q'))).
  apply: same_off => [||x off]; [exact: law_picked|by apply: law_picked; apply: graft_ok|].
  apply: at_leaf => //; try exact: graft_ok.
  move=> c cx; rewrite /graft; case: ifP => // zc; case/negP: off; exact: prefix_trans zc cx.
apply: same_probability => x zx; apply: at_leaf => //; try exact: graft_ok.
move=> c cx; rewrite /graft; case: ifP => // zc; have := prefixes_nested cx zx.
by rewrite zc /= => /andP[cz less]; apply: same.
Qed.
End Rule.

(* ---------------------------------------------------------------------------- first tokens *)
Definition starts P x := if x is a :: _ then P a else false.

Lemma starts_path P q : is_model q -> (0 < n)%N ->
  probability (starts P) (path q n [::]) = \sum_(a | P a) q [::] a.
Proof.
move=> q_ok; case: n => [//|k] _; rewrite /probability expected_path.
rewrite (expected_draw_row complete) // [RHS]big_mkcond; apply: eq_bigr => a _ /=.
rewrite expected_const (proj2 (law_path complete q_ok k _)) mul1r.
by case: (P a); rewrite ?mulr1 ?mulr0.
Qed.
(* One of the paths starts so. *)
Lemma starts_drafts P q : is_model q -> (0 < n)%N ->
  probability (has (starts P)) (drafts q) = 1 - (1 - \sum_(a | P a) q [::] a) ^+ K.
Proof.
move=> q_ok n0; rewrite (probability_not _ (law_drafts q_ok)); congr (_ - _).
rewrite -starts_path // /drafts; elim: (count) => [|k IH].
  by rewrite expr0 /probability expected_ret.
rewrite exprS -IH (probability_not (starts P)); last exact: law_path.
rewrite opprB addrC subrK /probability expected_independent -expected_mulr.
apply: eq_expected => x; rewrite -expected_mull; apply: eq_expected => xs /=.
by rewrite negb_or; case: (starts P x); rewrite ?mul0r ?mul1r.
Qed.
Lemma starts_picked P select p q : is_selection select -> is_model p -> is_model q -> (0 < n)%N ->
  probability (starts P) (picked select p q) <= 1 - (1 - \sum_(a | P a) q [::] a) ^+ K.
Proof.
move=> selection p_ok q_ok n0; rewrite -starts_drafts // /probability expected_bind.
have [drafts0 _] := law_drafts q_ok; apply: expected_mono_possible => // xs can.
have [[select0 select1] drafted] := selection _ _ _ p_ok q_ok can.
have <- : expected (fun=> (has (starts P) xs)%:R) (select p q xs) = (has (starts P) xs)%:R :> R.
  by rewrite expected_const select1 mul1r.
apply: expected_mono_possible => // x x_can.
rewrite ler_nat; case: (boolP (starts P x)) => // Px.
by rewrite (_ : has _ _) //; apply/hasP; exists x; rewrite ?drafted.
Qed.
End Rules.

(* ------------------------------------------------------------------------------- verifiers *)
Section Verifiers.
Variables (R : realFieldType) (T : finType).
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Local Notation text := (@text (field_numbers R) T).
Implicit Types (p q : model) (x u : seq T).

(* A lossless verifier, as the law of what it is given with what it emits and the target that it
   leaves: it is given d with the law of `drawn`, and accepts what was `drafted` in d. *)
Definition verifies D (drawn : law D) (drafted : D -> seq T -> bool) p
    (m : law (D * (emission T * model))) :=
  [/\ is_law m, forall f : D -> R, expected (fun o => f o.1) m = expected f drawn,
      forall o, possible m o -> drafted o.1 o.2.1.1, forall o, possible m o -> is_model o.2.2
    & greedy_block.lossless_leaving p (o <- m ;; ret _ o.2)].
Definition length D (m : law (D * (emission T * model))) : R :=
  expected (fun o => (size o.2.1.1)%:R) m.

Lemma accepted_text D drawn drafted p (m : law (D * (emission T * model))) o :
  verifies drawn drafted p m -> possible m o -> text p [::] o.2.1.1 != 0.
Proof.
move=> [[m0 _] _ _ models ok] can; set u := o.2.1.1; apply/negP => /eqP zero.
pose begun (o : D * (emission T * model)) : R := (prefix u (tokens o.2.1))%:R.
have less : expected begun m <= 0.
  rewrite -zero -(ok u) expected_bind; apply: expected_mono_possible => // b /models b_ok.
  rewrite expected_ret /begun /begins; case: ifP => // _; case: ifP => // _.
  exact: text_ge0.
have begun0 b : 0 <= begun b by apply: ler0n.
have none : expected begun m = 0 by apply/eqP; rewrite eq_le less expected_ge0.
have /eqP := expected_one_of m0 begun0 can none.
by rewrite /begun /tokens -cats1 prefix_prefix oner_eq0.
Qed.

Lemma given_holds D drawn drafted p (m : law (D * (emission T * model))) (e : pred D) o :
  verifies drawn drafted p m -> (forall d, possible drawn d -> e d) -> possible m o -> e o.1.
Proof.
move=> [[m0 _] given _ _ _] ok can; pose f d : R := (~~ e d)%:R.
have none : expected (fun o => f o.1) m = 0.
  rewrite given -(expected_zero drawn); apply: eq_expected_possible => d /ok.
  by rewrite /f => ->.
have /eqP := expected_one_of m0 (fun o => ler0n R (~~ e o.1)) can none.
by rewrite pnatr_eq0 eqb0 negbK.
Qed.

(* Two tokens are all that the target writes first, and after the second all is lost: the draft has
   nothing of the target's. *)
Definition fork (good bad : T) p q :=
  (forall a, p [::] a != 0 -> (a == good) || (a == bad)) /\
  forall a, p [:: bad] a * q [:: bad] a = 0.

Lemma fork_length good bad p q x u : fork good bad p q -> size x = 2%N -> text q [::] x != 0 ->
  prefix u x -> text p [::] u != 0 ->
  (size u)%:R <= (starts (pred2 good bad) x)%:R + (starts (pred1 good) x)%:R :> R.
Proof.
move=> [roots lost]; case: x => [|a [|b [|]]] //= _.
rewrite mulr1 mulf_eq0 negb_or => /andP[_ qb]; case: u => [|c [|d [|]]] //=.
- by rewrite addr_ge0 ?ler0n.
- by rewrite andbT => /eqP->; rewrite mulr1 => /roots ->; rewrite ler_addl ler0n.
- rewrite andbT => /andP[/eqP-> /eqP->]; rewrite mulr1 mulf_eq0 negb_or => /andP[/roots pa pb].
  rewrite pa; case/orP: pa => /eqP a_is; first by rewrite a_is eqxx -natrD.
  have /eqP := lost b; move: qb pb; rewrite a_is => /negbTE qb /negbTE pb.
  by rewrite mulf_eq0 pb qb.
by move=> e s; rewrite !andbF.
Qed.
End Verifiers.

(* --------------------------------------------------------------------------------- two worlds *)
Section TwoWorlds.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variable count : nat.
Local Notation K := count.
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Local Notation drafts := (@drafts R T vocabulary K 2).
Local Notation picked := (@picked R T vocabulary K 2).
Local Notation text := (@text (field_numbers R) T).
Local Notation of_drafts := (fun (xs : seq (seq T)) u => has (prefix u) xs).
Local Notation of_path := (fun x u : seq T => prefix u x).
Implicit Types (p q : model) (x u : seq T).

Lemma sum_pair (f : T -> R) a b : a != b -> f a + f b = \sum_(c | pred2 a b c) f c.
Proof.
move=> ne; rewrite (bigD1 a) /= ?eqxx // (bigD1 b) /= ?eqxx ?orbT 1?eq_sym //; congr (_ + _).
by rewrite big1 ?addr0 // => c /andP[/andP[/orP[]/eqP->]]; rewrite eqxx.
Qed.

(* Let the target write one of two tokens first, and let the draft have nothing of the target's
   after the bad one. Then no lossless verifier of K paths of two tokens, whatever target it leaves,
   accepts more tokens on average than the sum of the probability that a path starts with one of the
   two and the probability that a path starts with the good one:
   1 - (1 - q(good) - q(bad))^K + 1 - (1 - q(good))^K. *)
Theorem fork_optimum good bad p q (m : law (seq (seq T) * (emission T * model))) :
  is_model q -> good != bad -> fork good bad p q -> verifies (drafts q) of_drafts p m ->
  length m <= 1 - (1 - (q [::] good + q [::] bad)) ^+ K + (1 - (1 - q [::] good) ^+ K).
Proof.
move=> q_ok ne fork_pq ok; have [[m0 _] given drafted _ _] := ok.
have oneE : q [::] good = \sum_(a | pred1 good a) q [::] a by rewrite big_pred1_eq.
have heads P : 1 - (1 - \sum_(a | P a) q [::] a) ^+ K = probability (has (starts P)) (drafts q).
  by rewrite (starts_drafts complete K P q_ok (isT : (0 < 2)%N)).
rewrite (sum_pair _ ne) [in X in _ + X]oneE !heads /probability -!given.
rewrite -expected_add; apply: expected_mono_possible => // o can.
have /hasP[x x_in ux] := drafted o can.
have all_ok : all (fun x => (size x == 2%N) && (text q [::] x != 0)) o.1.
  apply: (given_holds ok) can => xs xs_can; apply/allP => y y_in.
  by have [_ /(_ y y_in)[-> ->]] := possible_drafts complete q_ok xs_can.
have /allP/(_ x x_in)/andP[/eqP x2 qx] := all_ok.
apply: le_trans (fork_length fork_pq x2 qx ux (accepted_text ok can)) _.
have among P : (starts P x)%:R <= (has (starts P) o.1)%:R :> R.
  rewrite ler_nat; case: (boolP (starts P x)) => // Px.
  by rewrite (_ : has _ _) //; apply/hasP; exists x.
by rewrite ler_add.
Qed.

(* Let two worlds have the same rows at the root; in one of them a is good and b is bad, and in the
   other b is good and a is bad. If the law of a selection is computable along the path, then no
   lossless verifications of the path that it selects, whatever targets they leave, accept more
   tokens on average, in the sum of both worlds, than three times the probability that a path starts
   with one of the two: 3 (1 - (1 - q(a) - q(b))^K). *)
Theorem along_at_most a b p q p' q' select
    (m m' : law (seq T * (emission T * model))) : a != b ->
  is_model p -> is_model q -> is_model p' -> is_model q' ->
  (p [::] =1 p' [::]) -> (q [::] =1 q' [::]) -> fork a b p q -> fork b a p' q' ->
  is_selection vocabulary K 2 select -> along_the_path vocabulary K 2 select ->
  verifies (picked select p q) of_path p m -> verifies (picked select p' q') of_path p' m' ->
  length m + length m' <= 3%:R * (1 - (1 - (q [::] a + q [::] b)) ^+ K).
Proof.
move=> ne p_ok q_ok p'_ok q'_ok p_root q_root ab ba selection along ok ok'.
have one_world c d r s (l : law (seq T * (emission T * model))) : is_model r -> is_model s ->
    fork c d r s -> verifies (picked select r s) of_path r l ->
    length l <= probability (starts (pred2 c d)) (picked select r s)
      + probability (starts (pred1 c)) (picked select r s).
  move=> r_ok s_ok fork_rs l_ok; have [[l0 _] given drafted _ _] := l_ok.
  rewrite /probability -!given -expected_add; apply: expected_mono_possible => // o can.
  have : (size o.1 == 2%N) && (text s [::] o.1 != 0).
    apply: (given_holds (e := fun x => (size x == 2%N) && (text s [::] x != 0)) l_ok) can => x.
    by case/(size_picked complete selection r_ok s_ok) => -> ->.
  case/andP=> /eqP x2 sx.
  exact: (fork_length fork_rs x2 sx (drafted o can) (accepted_text l_ok can)).
have same c : probability (starts (pred1 c)) (picked select p q) =
    probability (starts (pred1 c)) (picked select p' q').
  have starts1 r s : probability (starts (pred1 c)) (picked select r s) =
      probability (prefix [:: c]) (picked select r s).
    by apply: eq_probability => -[//|d x] /=; rewrite ?prefix0s ?andbT eq_sym.
  by rewrite !starts1; apply: (picked_starts complete selection) => // -[|d y].
have both r s : is_model r -> is_model s -> s [::] a + s [::] b = q [::] a + q [::] b ->
    probability (starts (pred2 a b)) (picked select r s) <= 1 - (1 - (q [::] a + q [::] b)) ^+ K.
  move=> r_ok s_ok <-; rewrite (sum_pair _ ne).
  exact: (starts_picked complete _ selection r_ok s_ok).
have first := le_trans (one_world _ _ _ _ _ p_ok q_ok ab ok)
  (ler_add (both _ _ p_ok q_ok erefl) (lexx _)).
have second : length m' <= 1 - (1 - (q [::] a + q [::] b)) ^+ K
    + probability (starts (pred1 b)) (picked select p q).
  apply: le_trans (one_world _ _ _ _ _ p'_ok q'_ok ba ok') _; rewrite same ler_add2r.
  rewrite -(@eq_probability _ _ (starts (pred2 a b))); last first.
    by case=> //= c x; rewrite orbC.
  by apply: both; rewrite -?q_root.
have pair : probability (starts (pred1 a)) (picked select p q)
    + probability (starts (pred1 b)) (picked select p q) <= 1 - (1 - (q [::] a + q [::] b)) ^+ K.
  rewrite /probability -expected_add -/(probability _ _).
  apply: le_trans (both _ _ p_ok q_ok erefl).
  rewrite le_eqVlt; apply/orP; left; apply/eqP/eq_expected => -[|c x] /=; first by rewrite addr0.
  by case: (eqVneq c a) => [->|_]; rewrite ?(negbTE ne) ?addr0 ?add0r.
move: (1 - _) first second pair => most first second pair.
apply: le_trans (ler_add first second) _.
by rewrite addrACA !mulrSr mulr0n add0r !mulrDl !mul1r ler_add2l.
Qed.
End TwoWorlds.

(* ------------------------------------------------------- block verification of what is selected *)
Section Blocks.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables count n : nat.
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Variables (select : rule R T) (p q rows : model).
Hypothesis selection : is_selection vocabulary count n select.
Hypotheses (p_model : is_model p) (q_model : is_model q) (rows_model : is_model rows).
Local Notation drafts := (@drafts R T vocabulary count n).
Local Notation picked := (@picked R T vocabulary count n select p q).
Local Notation verify := (verify (N := field_numbers R) vocabulary p rows).
Implicit Types (x u : seq T) (xs : seq (seq T)).

(* The selected path has the law of a model. *)
Hypothesis picked_rows : selects vocabulary rows n picked.

(* The selected path, or the drafts, with what block verification emits, and the target as it is. *)
Definition block_of_picked : law (seq T * (emission T * model)) :=
  x <- picked ;; e <- verify x ;; ret _ (x, (e, p)).
Definition block_of_drafts : law (seq (seq T) * (emission T * model)) :=
  xs <- drafts q ;; x <- select p q xs ;; e <- verify x ;; ret _ (xs, (e, p)).

Lemma possible_rows x : possible picked x ->
  possible (path (N := field_numbers R) vocabulary rows n [::]) x.
Proof.
move=> can; have [picked0 _] := law_picked complete selection p_model q_model.
have : probability (pred1 x) picked != 0.
  apply/eqP => zero; have := expected_one_of picked0 (fun y => ler0n R (pred1 x y)) can zero.
  by rewrite /= eqxx => /eqP; rewrite oner_eq0.
rewrite /probability picked_rows; elim: (path _ _ _ _) => [|[y w] m IH]; first by rewrite eqxx.
rewrite expected_cons /=; have [-> /=|ne /=] := eqVneq y x; last first.
  by rewrite mulr0 add0r => /IH[v v_in v0]; exists v => //; right.
have [->|w0 _] := eqVneq w 0; last by exists w => //; left.
by rewrite mul0r add0r => /IH[v v_in v0]; exists v => //; right.
Qed.
Let law_verify x : possible picked x -> is_law (verify x).
Proof. by move/possible_rows; exact: (verify_law complete p_model rows_model). Qed.
Let possible_picked xs x : possible (drafts q) xs -> possible (select p q xs) x ->
  possible picked x.
Proof. by move=> xs_can x_can; exact: bind_possible xs_can x_can. Qed.
Let verified x e : possible (verify x) e -> prefix e.1 x.
Proof. by case=> w e_in _; exact: (verify_prefix e_in). Qed.

Lemma block_of_pickedE (f : emission T -> R) :
  expected (fun o => f o.2.1) block_of_picked = expected f (block vocabulary p rows n).
Proof.
rewrite -(selected_block p f picked_rows) [LHS]expected_bind [RHS]expected_bind.
apply: eq_expected => x; rewrite expected_bind.
by apply: eq_expected => e; rewrite expected_ret.
Qed.
Lemma block_of_draftsE (f : emission T -> R) :
  expected (fun o => f o.2.1) block_of_drafts = expected f (block vocabulary p rows n).
Proof.
rewrite -(selected_block p f picked_rows) [RHS]expected_bind [LHS]expected_bind [RHS]expected_bind.
apply: eq_expected => xs; rewrite [LHS]expected_bind; apply: eq_expected => x.
by rewrite expected_bind; apply: eq_expected => e; rewrite expected_ret.
Qed.
(* So many tokens are accepted as of a path that is drawn from the model. *)
Lemma block_of_picked_length : length block_of_picked =
  expected (fun e => (size e.1)%:R) (block (N := field_numbers R) vocabulary p rows n).
Proof. exact: (block_of_pickedE (fun e => (size e.1)%:R)). Qed.
Lemma block_of_drafts_length : length block_of_drafts =
  expected (fun e => (size e.1)%:R) (block (N := field_numbers R) vocabulary p rows n).
Proof. exact: (block_of_draftsE (fun e => (size e.1)%:R)). Qed.
Let leaves D (m : law (D * (emission T * model))) : (forall o, possible m o -> o.2.2 = p) ->
  (forall f, expected (fun o => f o.2.1) m = expected f (block vocabulary p rows n)) ->
  greedy_block.lossless_leaving p (o <- m ;; ret _ o.2).
Proof.
move=> left same t; rewrite expected_bind -(block_lossless complete p_model rows_model n t).
rewrite -[RHS]same; apply: eq_expected_possible => o /left o_left.
by rewrite expected_ret o_left.
Qed.

Let of_picked o : possible block_of_picked o ->
  exists x e, [/\ possible picked x, possible (verify x) e & o = (x, (e, p))].
Proof.
rewrite /block_of_picked => can; have [x x_can {}can] := possible_bind can.
have [e e_can {}can] := possible_bind can; rewrite (possible_ret can).
by exists x, e.
Qed.
Let of_drafts o : possible block_of_drafts o -> exists xs x e, [/\ possible (drafts q) xs,
  possible (select p q xs) x, possible (verify x) e & o = (xs, (e, p))].
Proof.
rewrite /block_of_drafts => can; have [xs xs_can {}can] := possible_bind can.
have [x x_can {}can] := possible_bind can.
have [e e_can {}can] := possible_bind can; rewrite (possible_ret can).
by exists xs, x, e.
Qed.

(* Block verification of the selected path is a lossless verification of it. *)
Theorem picked_verifies : verifies picked (fun x u => prefix u x) p block_of_picked.
Proof.
split.
- apply: law_bind_possible => [|x can]; first exact: (law_picked complete selection).
  by apply: law_bind => [|e]; [exact: law_verify|exact: law_ret].
- move=> f; rewrite [LHS]expected_bind; apply: eq_expected_possible => x /law_verify[_ total1].
  rewrite expected_bind -[RHS]mul1r -total1 -expected_mulr.
  by apply: eq_expected => e; rewrite expected_ret mul1r.
- by move=> o /of_picked[x [e [_ e_can ->]]]; exact: verified e_can.
- by move=> o /of_picked[x [e [_ _ ->]]].
by apply: leaves block_of_pickedE => o /of_picked[x [e [_ _ ->]]].
Qed.
(* Block verification of the selected path is a lossless verification of the drafts as well. *)
Theorem drafts_verifies : verifies (drafts q) (fun xs u => has (prefix u) xs) p block_of_drafts.
Proof.
split.
- apply: law_bind_possible => [|xs xs_can]; first exact: law_drafts.
  have [select_law _] := selection p_model q_model xs_can.
  apply: law_bind_possible select_law _ => x x_can.
  by apply: law_bind => [|e]; [exact: law_verify (possible_picked xs_can x_can)|exact: law_ret].
- move=> f; rewrite [LHS]expected_bind; apply: eq_expected_possible => xs xs_can.
  have [[_ total1] _] := selection p_model q_model xs_can.
  rewrite expected_bind -[RHS]mul1r -total1 -expected_mulr; apply: eq_expected_possible => x x_can.
  have [_ {}total1] := law_verify (possible_picked xs_can x_can).
  rewrite expected_bind -total1 -expected_mulr.
  by apply: eq_expected => e; rewrite expected_ret mul1r.
- move=> o /of_drafts[xs [x [e [xs_can x_can e_can ->]]]]; apply/hasP; exists x.
    by have [_] := selection p_model q_model xs_can; apply.
  exact: verified e_can.
- by move=> o /of_drafts[xs [x [e [_ _ _ ->]]]].
by apply: leaves block_of_draftsE => o /of_drafts[xs [x [e [_ _ _ ->]]]].
Qed.
End Blocks.

(* ----------------------------------------------------- scores are computable along the path *)
Section Scores.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variable count : nat.
Hypothesis some : (0 < count)%N.
Local Notation K := count.
Variable passed_on : R -> R -> R.
Hypothesis passed_on0 : forall owed selected, 0 <= owed -> 0 <= selected ->
  0 <= passed_on owed selected.
Local Notation model := (seq T -> T -> R).
Local Notation known := (@scored.known (field_numbers R) T vocabulary passed_on).
Implicit Types (p q : model) (x z : seq T).

Lemma eq_sort (A : Type) (le le' : rel A) (s : seq A) : le =2 le' -> sort le s = sort le' s.
Proof.
move=> same; have eq_merge s1 s2 : merge le s1 s2 = merge le' s1 s2.
  elim: s1 s2 => [|x s1 IH1] //; elim=> [|y s2 IH2] //=.
  by rewrite same; case: (le' x y); rewrite ?IH1 //; congr (_ :: _).
have eq_push ss s1 : merge_sort_push le s1 ss = merge_sort_push le' s1 ss.
  by elim: ss s1 => [|[|x s2] ss IH] s1 //=; rewrite eq_merge IH.
have eq_pop ss s1 : merge_sort_pop le s1 ss = merge_sort_pop le' s1 ss.
  by elim: ss s1 => [|s2 ss IH] s1 //=; rewrite eq_merge IH.
rewrite /sort; move: [::] => ss; have [k] := ubnP (size s).
elim: k s ss => [//|k IH] [|x [|y s]] ss /= short; rewrite ?eq_push ?eq_pop //.
by rewrite same IH // -ltnS ltnW.
Qed.
Lemma eq_split s (owed : R) (p p' q q' : T -> R) : p =1 p' -> q =1 q' ->
  scored.split (N := field_numbers R) vocabulary K s owed p q =
  scored.split (N := field_numbers R) vocabulary K s owed p' q'.
Proof.
move=> pp qq; rewrite /scored.split.
have -> : [seq a <- vocabulary | ~~ (q a <= 0)] = [seq a <- vocabulary | ~~ (q' a <= 0)].
  by apply: eq_filter => a; rewrite qq.
rewrite (@eq_sort _ _ (fun a b => p' b / q' b <= p' a / q' a)) => [|a b]; last first.
  by rewrite /= !pp !qq.
set tokens := sort _ _.
have -> : [seq (scored.reach s : R) * q a | a <- tokens] =
    [seq scored.reach s * q' a | a <- tokens].
  by apply: eq_map => a; rewrite qq.
by have -> : [seq owed * p a | a <- tokens] = [seq owed * p' a | a <- tokens];
  first by apply: eq_map => a; rewrite pp.
Qed.
Lemma known_along p q p' q' x :
  (forall z, prefix z x -> p z =1 p' z /\ q z =1 q' z) -> known p q K x = known p' q' K x.
Proof.
elim/last_ind: x => [//|x a IH] same; rewrite !scored.known_rcons.
have {}IH : known p q K x = known p' q' K x.
  by apply: IH => z zx; apply: same; rewrite prefix_rconsE zx.
have [pp qq] := same x (prefix_rcons x a).
by rewrite /scored.scores_of IH (eq_split _ _ pp qq) pp.
Qed.

Definition by_scores : rule R T := fun p q =>
  scored.select (N := field_numbers R)
    (scored.scores_of (N := field_numbers R) vocabulary passed_on p q K).

(* The path with the smallest score is a selection, whatever is passed on as owed. *)
Theorem by_scores_selects n : is_selection vocabulary K n by_scores.
Proof.
move=> p q xs p_ok q_ok can; split.
  exact: (scored.law_select q_ok some (scored.scores_root vocabulary p q K passed_on)
    (scored.scores_proper complete p_ok q_ok K passed_on0)
    (scored.scores_drafted complete p_ok q_ok K passed_on0) can).
move=> x; rewrite /by_scores /scored.select => x_can.
have [i [w i_in w0] {}x_can] := possible_bind x_can; rewrite (possible_ret x_can).
apply: mem_nth; move/List.in_map_iff: i_in => [j [[<- _] j_in]].
suff : j \in iota 0 (size xs) by rewrite mem_iota.
by elim: (iota _ _) j_in => [|k s IH] //= [->|/IH j_in]; rewrite in_cons ?eqxx ?j_in ?orbT.
Qed.
(* The law of the path with the smallest score is computable along the path, whatever is passed on
   as owed. *)
Theorem by_scores_along n : along_the_path vocabulary K n by_scores.
Proof.
move=> p q p' q' x p_ok q_ok p'_ok q'_ok size_x same.
have at_x r s : is_model r -> is_model s ->
    probability (pred1 x) (picked vocabulary K n by_scores r s) =
    scored.value K (known r s K x).1.
  move=> r_ok s_ok; rewrite -[LHS]/(probability (pred1 x) (scored.selected (N := field_numbers R)
    vocabulary passed_on r s K n)).
  rewrite /probability (scored.selected_scored complete r_ok s_ok some passed_on0).
  rewrite -/(probability _ _) (greedy_block.path_law complete); last exact: scored.scored_model.
  by rewrite size_x eqxx (scored.scored_text complete r_ok s_ok some passed_on0).
by rewrite !at_x // (known_along same).
Qed.
End Scores.

(* --------------------------------------------------------- ranks are computable along the path *)
Section Ranks.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variable count : nat.
Hypothesis some : (0 < count)%N.
Local Notation K := count.
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Implicit Types (p q : model) (x z : seq T).

Lemma law_select_choice (choose : choice (field_numbers R) T) n z paths : chooses choose ->
  paths != [::] -> all (fun y => size y == n) paths -> is_law (selection.select choose n z paths).
Proof.
move=> chosen; elim: n z paths => [|n IH] z paths nonempty sizes /=; first exact: law_ret.
have drafted : siblings paths != [::] by case: paths nonempty sizes => [|[|a x] paths].
have [c0 /(_ drafted) c1 among] := chosen z (siblings paths).
have c_law : is_law (choose z (siblings paths)) by [].
apply: law_bind_possible => // a /among a_in; apply: law_bind => [|x]; last exact: law_ret.
apply: IH; last by apply/allP => u; rewrite mem_after => /(allP sizes).
move: a_in; rewrite mem_siblings => /hasP[[|b u] // u_in /eqP[ab]].
by apply/negP => /eqP none; move: u_in; rewrite ab -mem_after none.
Qed.

(* A rank of the tokens after every context, for every pair of models. *)
Variable rank : model -> model -> seq T -> T -> nat.
Definition by_rank n : rule R T := fun p q =>
  selection.select (go_to_highest (field_numbers R) (rank p q)) n [::].

(* Going to the highest-ranked token selects one of the paths. *)
Theorem by_rank_selects n : is_selection vocabulary K n (by_rank n).
Proof.
move=> p q xs p_ok q_ok can; split; last first.
  by move=> x; apply: (highest_drafted some can).
have [size_xs sizes] := possible_drafts complete q_ok can.
apply: law_select_choice; first exact: highest_chosen.
  by rewrite -size_eq0 size_xs -lt0n.
by apply/allP => x /sizes[->].
Qed.

(* If the rank at a context depends on the rows there alone, the law of the selection is computable
   along the path. *)
Theorem by_rank_along n : (forall p q, is_model p -> is_model q -> strict q (rank p q)) ->
  (forall p q p' q' z, p z =1 p' z -> q z =1 q' z -> rank p q z =1 rank p' q' z) ->
  along_the_path vocabulary K n (by_rank n).
Proof.
move=> is_strict local p q p' q' x p_ok q_ok p'_ok q'_ok size_x same.
pose stands r s := @standing (field_numbers R) T vocabulary (rank r s) s x.
have at_x r s : is_model r -> is_model s ->
    probability (pred1 x) (picked vocabulary K n (by_rank n) r s) =
    ((stands r s).1 + (stands r s).2) ^+ K - (stands r s).1 ^+ K.
  move=> r_ok s_ok.
  have := selected_highest_starts complete s_ok (is_strict r s r_ok s_ok) some n x.
  rewrite size_x leqnn => <-; apply: eq_expected_possible => y can.
  have [size_y _] := size_picked complete (@by_rank_selects n) r_ok s_ok can.
  by rewrite /= prefixE size_x -size_y take_size.
rewrite !at_x //; suff -> : stands p q = stands p' q' by [].
rewrite /stands; elim/last_ind: {size_x} x same {at_x stands} => [//|x a IH] same.
have {}IH := IH (fun z zx => same z (prefix_trans zx (prefix_rcons x a))).
have [pp qq] := same x (prefix_rcons x a); rewrite !standing_rcons /below /mass IH qq.
congr (_ + _ * _, _); rewrite !(lowerE complete); apply: eq_big => b; last by rewrite qq.
by rewrite !(local _ _ _ _ _ pp qq).
Qed.
End Ranks.

(* The rank of greedy multi-path block verification, by the ratio of target to draft, is such a
   rank. *)
Theorem by_ratio_along (R : realFieldType) (T : finType) (vocabulary : seq T) (count n : nat) :
  perm_eq vocabulary (enum T) -> (0 < count)%N -> along_the_path vocabulary count n
    (by_rank (fun p q => in_order (by_ratio (N := field_numbers R) vocabulary p q)) n).
Proof.
move=> complete some; apply: by_rank_along => // [p q _ q_ok|p q p' q' z pp qq a].
  by apply: strict_by_ratio => // z a; case: (q_ok z).
rewrite /in_order /by_ratio; congr index.
have -> : [seq a <- vocabulary | ~~ (q z a <= 0)] = [seq a <- vocabulary | ~~ (q' z a <= 0)].
  by apply: eq_filter => b; rewrite qq.
by apply: eq_sort => b c; rewrite /= !pp !qq.
Qed.

(* A sum over the texts of one token and of two. *)
Lemma sum_texts (R : realFieldType) (T : finType) (f : seq T -> R) :
  \sum_(k < 2) \sum_(x : k.+1.-tuple T) f x = \sum_a f [:: a] + \sum_a \sum_b f [:: a; b].
Proof.
rewrite !big_ord_recl big_ord0 addr0; congr (_ + _).
  rewrite (reindex (fun a => [tuple a])) //.
  exists (fun x => thead x) => [a _|x _]; first by [].
  by apply: val_inj; case: x => -[|a [|b x]].
rewrite (reindex (fun e : T * T => [tuple e.1; e.2])) /=.
  by rewrite -(pair_big predT predT (fun a b => f [:: a; b])).
exists (fun x => (thead x, thead (behead_tuple x))) => [[a b] _|x _]; first by [].
by apply: val_inj; case: x => -[|a [|b [|c x]]].
Qed.

(* ------------------------------------------------------------- three tokens, two paths of two *)
Section ThreeTokens.
Local Notation R := rat_realFieldType.
Local Notation three := [finType of 'I_3].
Local Notation law := (law (field_numbers R)).

Definition token0 : 'I_3 := @Ordinal 3 0 isT.
Definition token1 : 'I_3 := @Ordinal 3 1 isT.
Definition token2 : 'I_3 := @Ordinal 3 2 isT.
Definition tokens3 : seq 'I_3 := [:: token0; token1; token2].
Lemma all_tokens3 : perm_eq tokens3 (enum three).
Proof. by apply: uniq_perm; rewrite ?enum_uniq // => -[[|[|[|x]]] lt] //; rewrite mem_enum. Qed.

Definition listed (a b c : rat) (x : 'I_3) : rat := nth 0 [:: a; b; c] x.

(* Two worlds with one target, which writes the token 2 after any other. So does the draft after the
   good token of the world; after the others it writes the token 0. *)
Definition good (world : bool) : 'I_3 := if world then token0 else token1.
Definition target (z : seq 'I_3) : 'I_3 -> rat :=
  if z is [::] then listed (1 / 2%:Q) (1 / 2%:Q) 0 else listed 0 0 1.
Definition draft (world : bool) (z : seq 'I_3) : 'I_3 -> rat :=
  if z is a :: _ then if a == good world then listed 0 0 1 else listed 1 0 0
  else listed (1 / 4%:Q) (1 / 4%:Q) (1 / 2%:Q).

Lemma sum3 (F : realFieldType) (f : 'I_3 -> F) : \sum_x f x = f token0 + f token1 + f token2.
Proof.
rewrite !big_ord_recl big_ord0 addr0 addrA.
by congr (f _ + f _ + f _); apply: val_inj.
Qed.
Lemma listed_row (a b c : rat) :
  [&& 0 <= a, 0 <= b, 0 <= c & a + b + c == 1] -> is_row (listed a b c).
Proof.
by case/and4P=> a0 b0 c0 /eqP total; split; [case=> -[|[|[|x]]] lt|rewrite sum3].
Qed.
Lemma target_model : is_model target.
Proof. by case=> [|a z]; apply: listed_row. Qed.
Lemma draft_model world : is_model (draft world).
Proof. by case=> [|a z]; rewrite /draft; [|case: ifP => _]; apply: listed_row. Qed.
Lemma worlds_fork world : fork (good world) (good (~~ world)) target (draft world).
Proof.
split=> [[[|[|[|x]]] lt]|[[|[|[|x]]] lt]]; case: world => //=; rewrite ?mulr0 ?mul0r //.
Qed.

Local Notation drafts world := (drafts tokens3 2 2 (draft world)).
Local Notation of_drafts := (fun (xs : seq (seq 'I_3)) u => has (prefix u) xs).
Local Notation of_path := (fun x u : seq 'I_3 => prefix u x).
Local Notation model := (seq 'I_3 -> 'I_3 -> rat).

(* In neither world does a lossless verifier of all paths, whatever target it leaves, accept more
   than 19/16 of two tokens on average. *)
Theorem three_tokens_optimum world (m : law (seq (seq 'I_3) * (emission 'I_3 * model))) :
  verifies (drafts world) of_drafts target m -> length m <= 19%:Q / 16%:Q.
Proof.
move=> ok; have some_bad : good world != good (~~ world) by case: (world).
apply: le_trans (fork_optimum all_tokens3 (draft_model world) some_bad (worlds_fork world) ok) _.
by case: world {ok some_bad}; vm_cast_no_check (erefl true).
Qed.

(* If the law of a selection is computable along the path, no lossless verifications of the path
   that it selects, whatever targets they leave, accept more than 18/16 of two tokens on average in
   the mean of the worlds. *)
Theorem three_tokens_along select (m : bool -> law (seq 'I_3 * (emission 'I_3 * model))) :
  is_selection tokens3 2 2 select -> along_the_path tokens3 2 2 select ->
  (forall world, verifies (picked tokens3 2 2 select target (draft world)) of_path
    target (m world)) ->
  (length (m true) + length (m false)) / 2%:Q <= 18%:Q / 16%:Q.
Proof.
move=> selection along ok.
have := along_at_most all_tokens3 (isT : token0 != token1) target_model (draft_model true)
  target_model (draft_model false) (fun=> erefl) (fun=> erefl) (worlds_fork true)
  (worlds_fork false) selection along (ok true) (ok false).
by move=> le; rewrite ler_pdivr_mulr //; apply: le_trans le _.
Qed.

Lemma block_length3 (p rows : model) : is_model p -> is_model rows ->
  expected (fun e => (size e.1)%:R) (block (N := field_numbers R) tokens3 p rows 2) =
  \sum_a kept_mass (N := field_numbers R) p rows [:: a] [::] 1
  + \sum_a \sum_b kept_mass (N := field_numbers R) p rows [:: a; b] [::] 1.
Proof.
move=> p_ok rows_ok; rewrite (block_length all_tokens3 p_ok rows_ok).
exact: (sum_texts (fun x => kept_mass (N := field_numbers R) p rows x [::] 1)).
Qed.

(* The good token first, the bad one next. *)
Definition good_first (world : bool) (_ : seq 'I_3) (a : 'I_3) : nat :=
  (if a == good world then 2 else if a == good (~~ world) then 1 else 0)%N.
(* In each world a selection of the good token whenever it is drafted, followed by block
   verification, accepts 19/16 of two tokens on average, the most. *)
Theorem three_tokens_reached world : exists2 m : law (seq (seq 'I_3) * (emission 'I_3 * model)),
  verifies (drafts world) of_drafts target m & length m = 19%:Q / 16%:Q.
Proof.
pose rows := @skewed (field_numbers R) three tokens3 (good_first world) (draft world) 2.
have good_strict : strict (draft world) (good_first world).
  by apply: strict_injective => z [[|[|[|a]]] lta] [[|[|[|b]]] ltb] //; case: (world) => //= _;
    apply: val_inj.
have rows_model : is_model rows by exact: (skewed_model all_tokens3 (draft_model world)).
have selection := @by_rank_selects R _ _ all_tokens3 2 isT (fun _ _ => good_first world) 2.
have same : selects tokens3 rows 2 (picked tokens3 2 2 (by_rank (fun _ _ => good_first world) 2)
    target (draft world)).
  exact: (selected_skewed all_tokens3 (draft_model world) good_strict (isT : (0 < 2)%N) 2).
exists (block_of_drafts tokens3 2 2 (by_rank (fun _ _ => good_first world) 2) target
    (draft world) rows).
  exact: (drafts_verifies all_tokens3 selection target_model (draft_model world) rows_model).
rewrite (block_of_drafts_length same) (block_length3 target_model rows_model) !sum3.
by rewrite /rows; case: (world); apply/eqP; vm_cast_no_check (erefl true).
Qed.

(* Scored multi-path block verification accepts 18/16 of two tokens on average in each world. *)
Theorem three_tokens_scored world : let select := by_scores tokens3 2 (@least (field_numbers R)) in
  let rows := scored.scored (N := field_numbers R) tokens3 (@least (field_numbers R))
    target (draft world) 2 in
  let m := block_of_picked tokens3 2 2 select target (draft world) rows in
  verifies (picked tokens3 2 2 select target (draft world)) of_path target m /\
  length m = 18%:Q / 16%:Q.
Proof.
move=> select rows m; have positive := @scored.least_ge0 R.
have rows_model : is_model rows.
  exact: (scored.scored_model all_tokens3 target_model (draft_model world) 2 positive).
have same : selects tokens3 rows 2 (picked tokens3 2 2 select target (draft world)).
  exact: (scored.selected_scored all_tokens3 target_model (draft_model world)
    (isT : (0 < 2)%N) positive 2).
have selection := @by_scores_selects R _ _ all_tokens3 2 isT _ positive 2.
split.
  exact: (picked_verifies all_tokens3 selection target_model (draft_model world) rows_model).
rewrite (block_of_picked_length same) (block_length3 target_model rows_model) !sum3.
by rewrite /rows; case: (world); apply/eqP; vm_cast_no_check (erefl true).
Qed.
End ThreeTokens.
