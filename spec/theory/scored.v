(* Scored multi-path block verification and scored greedy block verification: K drafted paths
   compete to the end; the one with the smallest score is verified as a block, or greedily.

   Every drafted path has a score, uniform on [0, 1]. Its law may depend on the path: at a prefix
   it is a measure, kept as cells, and the children of a prefix share its cells out among them.
   Among K paths the smallest score u has the density K (1 - u)^(K-1), so the integral of this over
   the cells of a prefix is the probability that the selected path starts with it: no other path
   enters. The rule that shares out aims at the row that keeps most of the next token: that it
   does, and that it is the flattest that does, is argued in the ledger and not proved here. Proved
   for every vocabulary, number and length of paths and pair of models: whatever rule shares out the
   cells fairly, the selected path has the law of that model; the rule of the reference is fair and
   reaches the row that it aims at, whatever is passed on as owed to later tokens. So the text has
   the target's law at every horizon: of both verifiers, and of the greedy one over any number of
   iterations. It accepts what the target and the selected path share. Draftproof's own. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission block descent selection mixed.
From Draftproof Require greedy_block.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T).
Local Open Scope number_scope.

(* A mass spread evenly over the scores from low to high. *)
Record cell := Cell { low : N; high : N; mass : N }.
Definition scores := seq cell.

(* The scores at the root: those of all paths. *)
Definition uniform : scores := [:: Cell 0 1 1].

Definition sum (s : seq N) : N := foldr (@add N) 0 s.
Definition reach (s : scores) : N := sum [seq mass c | c <- s].

(* The part of the mass that is selected among K paths. *)
Definition worth (count : nat) (c : cell) : N :=
  let x := 1 - low c in let y := 1 - high c in
  mass c * sum_range 0 count (fun a => power x a * power y (count.-1 - a)).
Definition value (count : nat) (s : scores) : N := sum [seq worth count c | c <- s].

(* -------------------------------------------------------------------- the path that is selected *)
(* Polynomials list their coefficients, the lowest first. *)
Definition times (t g : N) (s : seq N) : seq N :=
  [seq t * c.1 + g * c.2 | c <- zip (rcons s 0) (0 :: s)].
Definition product (factors : seq (N * N)) : seq N :=
  foldr (fun f s => times f.1 f.2 s) [:: 1] factors.
Definition integral (s : seq N) : N :=
  sum [seq c.1 / natural N c.2 | c <- zip s (iota 1 (size s))].

Definition without A (i : nat) (s : seq A) : seq A := take i s ++ drop i.+1 s.

(* The probability that a path has its score from low to high. *)
Definition between (low_edge high_edge : N) (s : scores) : N :=
  sum [seq mass c / (high c - low c) | c <- s & (low c <= low_edge) && (high_edge <= high c)]
  * (high_edge - low_edge) / reach s.

(* The probability that path i has the smallest score, with the probabilities of scores beyond the
   first edge. Between two edges every score is spread evenly: with the others' chances of being
   there (g) and beyond (t), a score there is the smallest with probability the integral over 0..1
   of the product of t + g s. *)
Fixpoint smallest (paths : seq scores) (i : nat) (edges beyond : seq N) : N :=
  if edges is first :: later then
    if later is second :: _ then
      let here := [seq between first second s | s <- paths] in
      let beyond' := [seq e.1 - e.2 | e <- zip beyond here] in
      nth 0 here i * integral (product (without i (zip beyond' here)))
      + smallest paths i later beyond'
    else 0
  else 0.
Definition edges_of (s : scores) : seq N := flatten [seq [:: low c; high c] | c <- s].
Definition chances (paths : seq scores) : seq N :=
  let edges := sort (@at_most N) (flatten (map edges_of paths)) in
  [seq smallest paths i edges [seq 1 | _ <- paths] | i <- iota 0 (size paths)].

Definition select (scores_of : seq T -> scores) (paths : seq (seq T)) : law N (seq T) :=
  let chance := chances (map scores_of paths) in
  chosen <- draw (iota 0 (size paths)) (nth 0 chance) ;; ret _ (nth [::] paths chosen).

(* -------------------------------------------------------------------- how scores are shared out *)
(* Cut scores of a given mass off a stack; and the stack that is left. *)
Fixpoint cut (stack : scores) (needed : N) : scores * scores :=
  if needed <= 0 then ([::], stack) else
  if stack is c :: stack' then
    if needed <= mass c then
      let edge := low c + (high c - low c) * needed / mass c in
      ([:: Cell (low c) edge needed],
       if mass c <= needed then stack' else Cell edge (high c) (mass c - needed) :: stack')
    else
      let '(hand, rest) := cut stack' (needed - mass c) in (c :: hand, rest)
  else ([::], [::]).

(* Cut the scores, the smallest first, into hands of the given masses. *)
Fixpoint dealt (stack : scores) (masses : seq N) : seq scores :=
  if masses is m :: masses' then
    let '(hand, rest) := cut stack m in hand :: dealt rest masses'
  else [::].

(* The owed mass where it fits one level, and elsewhere that level times the mass; of the ranks,
   that have owed masses and masses, the next comes first. *)
Fixpoint levelled (fits : N -> N -> bool) (ranks : seq (N * N)) (worth room : N) : seq N :=
  if ranks is (owed, m) :: rest then
    if ~~ nilp rest && fits (owed * room) (worth * m) then
      owed :: levelled fits rest (worth - owed) (room - m)
    else [seq worth * r.2 / room | r <- ranks]
  else [::].

(* By rank, a law within reach: of those that keep most, the sum of min(owed, aim), the flattest,
   which is argued and not proved here. *)
Definition aimed (owed masses most : seq N) : seq N :=
  let surplus := [seq sum (take k most) - sum (take k owed) | k <- iota 0 (size owed).+1] in
  let k := find (fun s => all (fun s' => s <= s') surplus) surplus in
  let ranks := zip owed masses in
  rev (levelled (@at_most N) (rev (take k ranks)) (sum (take k most)) (sum (take k masses)))
  ++ levelled (fun a b => b <= a) (drop k ranks) (sum (drop k most)) (sum (drop k masses)).

Section TieClasses.
Variables masses most : seq N.

Definition part (s : seq N) (first end_ : nat) : N := sum_range first end_ (nth 0 s).
Definition height (s : seq N) (first end_ : nat) : N := part s first end_ / part masses first end_.

(* The class of a rank: from its first rank to the first one beyond. *)
Definition class (edges : seq nat) (r : nat) : nat * nat :=
  head (0, 0)%N [seq e <- zip edges (behead edges) | (e.1 <= r < e.2)%N].
Definition level (edges : seq nat) (r : nat) : N :=
  let '(first, end_) := class edges r in height most first end_.

(* Write an aim as a mixture of nested tie classes: shares, with the edges of the classes. `needed`
   has the fall of aim/mass that is still needed at the edges 1, 2, ...; each step takes as much as
   possible of the finest classes that the rest needs, until the fall at some edge is served. *)
Fixpoint tie_classes (steps : nat) (left : N) (needed : seq N) : seq (N * seq nat) :=
  if steps is steps'.+1 then
    if left <= 0 then [::] else
    let size := size masses in
    let inner := [seq e.1 | e <- zip (iota 1 size.-1) needed & ~~ (e.2 <= 0)] in
    let edges := (0 :: rcons inner size)%N in
    let falls := [seq level edges k.-1 - level edges k | k <- iota 1 size.-1] in
    let pairs := zip needed falls in
    let share := foldl (@least N) left [seq e.1 / e.2 | e <- pairs & ~~ (e.2 <= 0)] in
    (share, edges) :: tie_classes steps' (left - share) [seq e.1 - share * e.2 | e <- pairs]
  else [::].
Definition classes_of (aim : seq N) : seq (N * seq nat) :=
  tie_classes (size masses) 1
    [seq height aim k.-1 k - height aim k k.+1 | k <- iota 1 (size masses).-1].

(* How much of the hand of rank i goes to rank r. *)
Definition weight (classes : seq (N * seq nat)) (r i : nat) : N :=
  sum [seq let '(first, end_) := class c.2 r in
           if (first <= i < end_)%N then c.1 * nth 0 masses r / part masses first end_ else 0
      | c <- classes].
End TieClasses.

(* The scores after a prefix, shared out: the tokens by rank, the hands, and the tie classes. *)
Record division := Division {
  tokens : seq T;
  masses : seq N;
  aim : seq N;
  hands : seq scores;
  classes : seq (N * seq nat) }.

(* The law of the next token of the selected path, not normalised, and the scores after it. *)
Definition law_of (d : division) : row N T := fun a =>
  if a \in tokens d then nth 0 (aim d) (index a (tokens d)) else 0.
Definition after (d : division) (a : T) : scores :=
  if a \in tokens d then
    let r := index a (tokens d) in
    let weights := [seq weight (masses d) (classes d) r i | i <- iota 0 (size (hands d))] in
    flatten [seq [seq Cell (low c) (high c) (mass c * e.1) | c <- e.2]
            | e <- zip weights (hands d) & ~~ (e.1 <= 0)]
  else [::].

Section Scored.
(* What a prefix z passes on to za as owed: by what the target owes to za, and by the probability
   that the selected path starts with za. *)
Variable passed_on : N -> N -> N.
Variables (p q : model N T) (count : nat).

(* `owed` is owed to the prefix: how much of it the verification can accept. Tokens that the draft
   cannot write have no path; the others are ranked by what the target owes them. *)
Definition split (s : scores) (owed : N) (p q : row N T) : division :=
  let tokens := sort (fun a b => p b / q b <= p a / q a) [seq a <- vocabulary | ~~ (q a <= 0)] in
  let masses := [seq reach s * q a | a <- tokens] in
  let hands := dealt (sort (fun c d => low c <= low d) s) masses in
  let most := [seq value count hand | hand <- hands] in
  let aim := aimed [seq owed * p a | a <- tokens] masses most in
  Division tokens masses aim hands (classes_of masses most aim).

(* What is known at a prefix: its scores, and what is owed to it. *)
Fixpoint known_after (z rest : seq T) (s : scores) (owed : N) : scores * N :=
  if rest is a :: rest' then
    let here := split s owed (p z) (q z) in
    known_after (rcons z a) rest' (after here a) (passed_on (owed * p z a) (law_of here a))
  else (s, owed).
Definition known (z : seq T) : scores * N := known_after [::] z uniform 1.
Definition scores_of (z : seq T) : scores := (known z).1.

(* The law of the selected path; off the paths, the draft's own. *)
Definition scored : model N T := fun z =>
  let '(s, owed) := known z in
  completed vocabulary (law_of (split s owed (p z) (q z))) (q z).

Definition selected (length : nat) : law N (seq T) :=
  drafted <- independent (path vocabulary q length [::]) count ;; select scores_of drafted.
End Scored.

Section Verifiers.
Variables (p q : model N T) (count : nat).

(* Verified as a block, a prefix passes on what can be accepted of the selected path. *)
Definition scored_multipath_block (length : nat) : law N (emission T) :=
  path <- selected (@least N) p q count length ;;
  verify vocabulary p (scored (@least N) p q count) path.

(* Verified greedily, it passes on all of it: an early block leaves the rest to later ones. *)
Definition all_of_it (owed selected : N) : N := owed.

(* The path is verified greedily, and the verification leaves a modified target. *)
Definition scored_greedy_block (length : nat) : law N (emission T) :=
  greedy_block.greedy_block vocabulary p (scored all_of_it p q count) length
    (selected all_of_it p q count length).
End Verifiers.
End Programs.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments coin : simpl never.
Local Arguments expected : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ------------------------------------------------------------------------ lists and polynomials *)
Section Lists.
Implicit Types A B : Type.

(* Neighbours in a list. *)
Definition pairs A (s : seq A) : seq (A * A) := zip s (behead s).

Lemma pairs_cons A (a b : A) (s : seq A) : pairs [:: a, b & s] = (a, b) :: pairs (b :: s).
Proof. by []. Qed.
Lemma pairs_sorted (A : eqType) (le : rel A) (s : seq A) e : reflexive le -> transitive le ->
  sorted le s -> e \in pairs s ->
  [/\ le e.1 e.2, e.1 \in s, e.2 \in s & forall a, a \in s -> le a e.1 || le e.2 a].
Proof.
move=> le_refl le_trans; case: s => [//|a s]; elim: s a => [//|b s IH] a /= /andP[ab bs].
rewrite inE => /orP[/eqP->|e_in].
  split; rewrite ?inE ?eqxx ?orbT // => c; rewrite !inE => /or3P[/eqP->|/eqP->|c_in] /=.
  - by rewrite le_refl.
  - by rewrite le_refl orbT.
  - by rewrite (allP (order_path_min le_trans bs)) // orbT.
have [e12 e1 e2 apart] := IH b bs e_in.
split; [by []|by apply/orP; right|by apply/orP; right|move=> c].
rewrite in_cons => /orP[/eqP->|/apart //].
have : le b e.1.
  by move: e1; rewrite inE => /orP[/eqP->//|]; apply: (allP (order_path_min le_trans bs)).
by move=> be; rewrite (le_trans _ _ _ ab be).
Qed.

Lemma eq_map_all A B (P : pred A) (f g : A -> B) (s : seq A) :
  all P s -> (forall a, P a -> f a = g a) -> map f s = map g s.
Proof. by move=> + same; elim: s => [|a s IH] //= /andP[/same-> /IH->]. Qed.
Lemma map_without A B (f : A -> B) i (s : seq A) : map f (without i s) = without i (map f s).
Proof. by rewrite /without map_cat map_take map_drop. Qed.
Lemma all_without A (P : pred A) i (s : seq A) : all P s -> all P (without i s).
Proof.
move=> ok; have split k : all P s = all P (take k s) && all P (drop k s).
  by rewrite -all_cat cat_take_drop.
rewrite /without all_cat.
have /andP[-> _] : all P (take i s) && all P (drop i s) by rewrite -split.
by have /andP[_ ->] : all P (take i.+1 s) && all P (drop i.+1 s) by rewrite -split.
Qed.
End Lists.

Section Polynomials.
Variable R : realFieldType.
Implicit Types (P Q : {poly R}) (s : seq R) (t g : R).

Lemma sumE s : sum (N := field_numbers R) s = \sum_(x <- s) x.
Proof. by rewrite unlock /sum /reducebig; elim: s => //= a s ->. Qed.

(* The integral from 0 to 1. *)
Definition area P : R := \sum_(k < size P) P`_k / k.+1%:R.

Lemma area_size n P : (size P <= n)%N -> area P = \sum_(k < n) P`_k / k.+1%:R.
Proof.
move=> small; rewrite /area (big_ord_widen n (fun k => P`_k / k.+1%:R)) // big_mkcond /=.
by apply: eq_bigr => k _; case: ltnP => // /(nth_default 0)->; rewrite mul0r.
Qed.
Lemma area_add P Q : area (P + Q) = area P + area Q.
Proof.
rewrite !(@area_size (maxn (size P) (size Q))) ?leq_maxl ?leq_maxr ?size_add //.
by rewrite -big_split; apply: eq_bigr => k _; rewrite coefD mulrDl.
Qed.
Lemma area_scale t P : area (t *: P) = t * area P.
Proof.
rewrite !(@area_size (size P)) ?size_scale_leq // mulr_sumr.
by apply: eq_bigr => k _; rewrite coefZ mulrA.
Qed.
Lemma area_ge0 P : (forall k, 0 <= P`_k) -> 0 <= area P.
Proof. by move=> P0; apply: sumr_ge0 => k _; rewrite divr_ge0 ?ler0n. Qed.
Lemma area_deriv P : area P^`() = P.[1] - P.[0].
Proof.
rewrite (@area_size (size P)); last exact: leq_trans (size_poly _ _) (leq_pred _).
have -> : P.[1] = \sum_(i < (size P).+1) P`_i.
  rewrite horner_coef big_ord_recr /= [in RHS]nth_default // addr0.
  by apply: eq_bigr => i _; rewrite expr1n mulr1.
rewrite big_ord_recl horner_coef0 addrAC subrr add0r; apply: eq_bigr => k _.
by rewrite coef_deriv -mulr_natr mulfK // pnatr_eq0.
Qed.

Definition primitive P : {poly R} := \poly_(i < (size P).+1) (P`_i.-1 / i%:R).
Lemma primitiveK P : (primitive P)^`() = P.
Proof.
apply/polyP => i; rewrite coef_deriv coef_poly ltnS; case: ltnP => [_|/(nth_default 0)->].
  by rewrite -mulr_natr divfK // pnatr_eq0.
by rewrite mul0rn.
Qed.
(* A part of the area. *)
Lemma area_part t g P : g * area (P \Po (t%:P + g *: 'X)) =
  (primitive P).[t + g] - (primitive P).[t].
Proof.
transitivity (area (primitive P \Po (t%:P + g *: 'X))^`()).
  rewrite deriv_comp primitiveK derivD derivC derivZ derivX add0r -area_scale.
  by rewrite -[X in _ * X]mul_polyC mulr1 mulrC mul_polyC.
by rewrite area_deriv !horner_comp !(hornerD, hornerC, hornerZ, hornerX) mulr1 mulr0 addr0.
Qed.
Lemma area_split m P :
  (1 - m) * area (P \Po (m%:P + (1 - m) *: 'X)) + m * area (P \Po (0%:P + m *: 'X)) = area P.
Proof.
rewrite !area_part addrC -[in RHS](primitiveK P) area_deriv add0r addrC [m + _]addrC subrK.
by rewrite addrA subrK.
Qed.
Lemma area_power t g n : g * n.+1%:R * area ((t%:P + g *: 'X) ^+ n) = (t + g) ^+ n.+1 - t ^+ n.+1.
Proof.
have -> : (t + g) ^+ n.+1 - t ^+ n.+1 = area ((t%:P + g *: 'X) ^+ n.+1)^`().
  by rewrite area_deriv !horner_exp !(hornerD, hornerC, hornerZ, hornerX) mulr1 mulr0 addr0.
rewrite deriv_exp derivD derivC derivZ derivX add0r /= -area_scale; congr (area _).
by rewrite -scalerAl mul1r -scaler_nat scalerA [_ * g]mulrC.
Qed.

(* The list of coefficients is the polynomial. *)
Lemma integralE s : integral (N := field_numbers R) s = area (Poly s).
Proof.
rewrite (area_size (size_Poly s)) /integral sumE big_map.
have from n : \sum_(c <- zip s (iota n.+1 (size s))) c.1 / natural (field_numbers R) c.2
    = \sum_(k < size s) s`_k / (n + k).+1%:R.
  elim: s n => [|a s IH] n /=; first by rewrite big_nil big_ord0.
  rewrite big_cons big_ord_recl naturalE addn0 IH; congr (_ + _).
  by apply: eq_bigr => k _; rewrite /bump /= addSnnS.
by rewrite (from 0%N); apply: eq_bigr => k _; rewrite coef_Poly.
Qed.
Lemma timesE t g s :
  Poly (times (N := field_numbers R) t g s) = (t%:P + g *: 'X) * Poly s.
Proof.
apply/polyP => i; rewrite mulrDl coefD coefCM -scalerAl coefZ coefXM !coef_Poly /times.
have [small|large] := ltnP i (size (zip (rcons s 0) (0 :: s))).
  rewrite (nth_map (0, 0)) // nth_zip ?size_rcons //= nth_rcons.
  move: small; rewrite size1_zip size_rcons //= ltnS leq_eqVlt => /orP[/eqP->|is_]; last first.
    by rewrite is_; case: i is_.
  by rewrite ltnn eqxx [s`_(size s)]nth_default //; case: (size s).
rewrite nth_default ?size_map //; move: large; rewrite size1_zip size_rcons //= => large.
rewrite [s`_i]nth_default ?(ltnW large) // mulr0 add0r.
by case: i large => // i large; rewrite nth_default ?mulr0.
Qed.
Lemma productE (fs : seq (R * R)) : Poly (product (N := field_numbers R) fs) =
  \prod_(f <- fs) (f.1%:P + f.2 *: 'X).
Proof.
elim: fs => [|f fs IH]; first by rewrite big_nil /= -[RHS]polyseqK polyseq1.
by rewrite big_cons [product _]/= timesE IH.
Qed.

Lemma product_coef_ge0 (fs : seq (R * R)) : (forall f, f \in fs -> 0 <= f.1 /\ 0 <= f.2) ->
  forall k, 0 <= (\prod_(f <- fs) (f.1%:P + f.2 *: 'X))`_k.
Proof.
elim: fs => [|f fs IH] ok k; first by rewrite big_nil coef1 ler0n.
have [f1 f2] := ok f (mem_head _ _).
have {}IH := IH (fun e e_in => ok e (mem_behead (s := f :: fs) e_in)).
rewrite big_cons mulrDl coefD coefCM -scalerAl coefZ coefXM addr_ge0 ?mulr_ge0 //.
by case: (k == 0%N).
Qed.
(* The sum over which factor is differentiated. *)
Lemma area_product (fs : seq (R * R)) :
  \sum_(i < size fs) (nth 0 (map snd fs) i) * area (\prod_(f <- without i fs) (f.1%:P + f.2 *: 'X))
  = \prod_(f <- fs) (f.1 + f.2) - \prod_(f <- fs) f.1.
Proof.
pose line (f : R * R) := f.1%:P + f.2 *: 'X.
have -> : \prod_(f <- fs) (f.1 + f.2) - \prod_(f <- fs) f.1 =
    area (\prod_(f <- fs) line f)^`().
  rewrite area_deriv !horner_prod; congr (_ - _); apply: eq_bigr => f _;
  by rewrite !(hornerD, hornerC, hornerZ, hornerX) ?mulr1 ?mulr0 ?addr0.
transitivity (\sum_(i < size fs)
    area (nth 0 (map snd fs) i *: \prod_(f <- without i fs) line f)).
  by apply: eq_bigr => i _; rewrite area_scale.
have sums (I : finType) (F : I -> {poly R}) : \sum_i area (F i) = area (\sum_i F i).
  by rewrite (big_morph area area_add (_ : area 0 = 0)) // /area size_poly0 big_ord0.
rewrite sums; congr (area _); elim: fs => [|f fs IH].
  by rewrite big_ord0 big_nil -polyC1 derivC.
rewrite big_ord_recl big_cons derivM -IH /without /= drop0; congr (_ + _).
  by rewrite derivD derivC derivZ derivX add0r -[_ *: 1]mul_polyC mulr1 mul_polyC.
by rewrite mulr_sumr; apply: eq_bigr => i _; rewrite big_cons -scalerAr.
Qed.
End Polynomials.

(* --------------------------------------------------------------------------- measures of scores *)
Section Measures.
Variable R : realFieldType.
Local Notation cell := (cell (field_numbers R)).
Local Notation scores := (scores (field_numbers R)).
Implicit Types (c : cell) (s : scores) (u a b m : R) (G : R -> R -> R).

(* The sum over the cells of their mass, times what a mass of one has there. *)
Definition measured G s : R := \sum_(c <- s) (mass c : R) * G (low c) (high c).
(* What is had from a to b is had in any two parts of it. *)
Definition fair G := forall a m b, a < m -> m < b ->
  (m - a) * G a m + (b - m) * G m b = (b - a) * G a b.

Definition one_each : R -> R -> R := fun _ _ => 1.
Definition clamp a b u : R := Num.max a (Num.min u b).
(* The part that is beyond u. *)
Definition beyond u : R -> R -> R := fun a b => (b - clamp a b u) / (b - a).
(* The part that is the smallest among K. *)
Definition smallest_among (K : nat) : R -> R -> R := fun a b =>
  \sum_(i < K) (1 - a) ^+ i * (1 - b) ^+ (K.-1 - i).

Lemma measured_cons G c s : measured G (c :: s) = (mass c : R) * G (low c) (high c) + measured G s.
Proof. exact: big_cons. Qed.
Lemma measured_cat G s s' : measured G (s ++ s') = measured G s + measured G s'.
Proof. exact: big_cat. Qed.
Lemma reachE s : reach s = measured one_each s.
Proof. by rewrite /reach sumE big_map; apply: eq_bigr => c _; rewrite mulr1. Qed.
Lemma valueE K s : value K s = measured (smallest_among K) s.
Proof.
rewrite /value sumE big_map; apply: eq_bigr => c _; rewrite /worth sum_rangeE big_mkord.
by congr (_ * _); apply: eq_bigr => i _; rewrite !powerE.
Qed.

Lemma smallest_amongE K a b : (b - a) * smallest_among K a b = (1 - a) ^+ K - (1 - b) ^+ K.
Proof.
rewrite -[RHS]opprB subrXX -mulNr; congr (_ * _).
  by rewrite !opprB [RHS]addrC addrA subrK.
by apply: eq_bigr => i _; rewrite mulrC.
Qed.
Lemma fair_smallest K : fair (smallest_among K).
Proof. by move=> a m b _ _; rewrite !smallest_amongE addrA subrK. Qed.
Lemma fair_one : fair one_each.
Proof. by move=> a m b _ _; rewrite !mulr1 addrC addrA subrK. Qed.
Lemma fair_beyond u : fair (beyond u).
Proof.
have beyondE a b : a < b -> (b - a) * beyond u a b = b - clamp a b u.
  by move=> ab; rewrite mulrC divfK // subr_eq0 gt_eqF.
move=> a m b am mb; rewrite !beyondE ?(lt_trans am mb) // /clamp.
have [um|mu] := ltP u m.
  rewrite (min_idPl (ltW (lt_trans um mb))) (max_idPl (ltW um)).
  by rewrite addrC addrA subrK.
rewrite (max_idPr (ltW am)) subrr add0r.
have -> // : Num.max m (Num.min u b) = Num.max a (Num.min u b).
by rewrite !(max_idPr _) // le_minr ?mu ?(le_trans (ltW am) mu) ltW // (lt_trans am).
Qed.

(* Cells from 0 to 1, with a mass. *)
Definition proper c := [&& 0 <= (low c : R), (low c : R) < high c, (high c : R) <= 1
  & 0 < (mass c : R)].

Lemma clamp_below a b u : a < b -> u <= a -> clamp a b u = a.
Proof. by move=> ab ua; apply/max_idPl; rewrite le_minl ua. Qed.
Lemma clamp_above a b u : a < b -> b <= u -> clamp a b u = b.
Proof. by move=> ab bu; rewrite /clamp (min_idPr bu); apply/max_idPr/ltW. Qed.
Lemma clamp_inside a b u : a <= u -> u <= b -> clamp a b u = u.
Proof. by move=> au ub; rewrite /clamp (min_idPl ub); apply/max_idPr. Qed.
End Measures.

(* --------------------------------------------------------------------- the smallest of K scores *)
Section Smallest.
Variable R : realFieldType.
Local Notation cell := (cell (field_numbers R)).
Local Notation scores := (scores (field_numbers R)).
Implicit Types (c : cell) (s : scores) (ss : seq scores) (u a b m : R) (E : seq R) (e : R * R).

(* The probability that a score is beyond u. *)
Definition survival s u : R := measured (beyond u) s / reach s.

(* A path's scores, with all their edges in E. *)
Definition fits E s :=
  [&& all (@proper R) s, 0 < (reach s : R) & all (fun x : R => x \in E) (edges_of s)].

(* Between two neighbouring edges a cell is everywhere or nowhere. *)
Let piece a b lo hi : a < b -> lo <= hi -> (a <= lo) || (hi <= a) -> (b <= lo) || (hi <= b) ->
  (forall m, lo <= m <= hi -> clamp a b m = m) /\ a <= lo /\ hi <= b \/
  (forall m, lo <= m <= hi -> clamp a b m = clamp a b lo) /\ (a <= lo -> hi <= b -> lo = hi).
Proof.
move=> ab lohi /orP[alo|hia] /orP[blo|hib].
- right; split=> [m /andP[lom _]|_ hib]; first by rewrite !clamp_above // (le_trans blo).
  by apply/eqP; rewrite eq_le lohi (le_trans hib).
- left; split=> // m /andP[lom mhi]; apply: clamp_inside; [exact: le_trans lom|exact: le_trans hib].
- have := lt_le_trans ab (le_trans blo (le_trans lohi hia)); by rewrite ltxx.
right; split=> [m /andP[lom mhi]|alo _]; last by apply/eqP; rewrite eq_le lohi (le_trans hia).
by rewrite !clamp_below // ?(le_trans lohi) // (le_trans mhi).
Qed.
Lemma cell_piece E s c e : sorted <=%R E -> e \in pairs E -> fits E s -> List.In c s ->
  (forall m, e.1 <= m <= e.2 -> clamp (low c) (high c) m = m) /\
    (low c : R) <= e.1 /\ e.2 <= (high c : R) \/
  (forall m, e.1 <= m <= e.2 -> clamp (low c) (high c) m = clamp (low c) (high c) e.1) /\
    ((low c : R) <= e.1 -> e.2 <= (high c : R) -> e.1 = e.2).
Proof.
move=> E_sorted e_in /and3P[ok _ edges] c_in.
have [e12 _ _ far] := pairs_sorted (@lexx _ _) (@le_trans _ _) E_sorted e_in.
have [c_ok lo_in hi_in] : [/\ proper c, (low c : R) \in E & (high c : R) \in E].
  elim: s ok edges c_in => [|d s IH] //= /andP[d_ok ok] /and3P[lo_in hi_in edges].
  by case=> [<-//|]; apply: IH.
by case/and4P: c_ok => _ ab _ _; apply: piece => //; apply: far.
Qed.
Lemma eq_measured (F G : cell -> R) s : (forall c, List.In c s -> F c = G c) ->
  \sum_(c <- s) F c = \sum_(c <- s) G c.
Proof.
elim: s => [|c s IH] same; first by rewrite !big_nil.
rewrite !big_cons same; last by left.
by rewrite IH // => d d_in; apply: same; right.
Qed.
Lemma in_proper E s c : fits E s -> List.In c s -> proper c.
Proof.
by case/and3P=> ok _ _; elim: s ok => [|d s IH] //= /andP[d_ok ok] [<-|/IH] //; apply.
Qed.
Lemma width_neq0 c : proper c -> (high c : R) - low c != 0.
Proof. by case/and4P=> _ ab _ _; rewrite subr_eq0 gt_eqF. Qed.

Lemma sub_of_common (x y z : R) : x - y - (x - z) = z - y.
Proof. by rewrite opprB addrC addrA subrK. Qed.

Lemma between_survival E s e : sorted <=%R E -> e \in pairs E -> fits E s ->
  between e.1 e.2 s = survival s e.1 - survival s e.2.
Proof.
move=> E_sorted e_in ok; rewrite /between /survival -mulrBl; congr (_ / _).
rewrite /measured -sumrB /= sumE big_map big_filter /= big_mkcond /= mulr_suml.
apply: eq_measured => c c_in; have /width_neq0 w0 := in_proper ok c_in.
have [e12 _ _ _] := pairs_sorted (@lexx _ _) (@le_trans _ _) E_sorted e_in.
have ends : (e.1 <= e.1 <= e.2) && (e.1 <= e.2 <= e.2) by rewrite !lexx e12.
case/andP: ends => end1 end2; rewrite -mulrBr /beyond -mulrBl sub_of_common.
case: (cell_piece E_sorted e_in ok c_in) => [[same [-> ->]]|[same alike]].
  by rewrite !same //= mulrA mulrAC.
rewrite (same e.2) // subrr mul0r mulr0; case: ifP => [/andP[lo hi]|]; last by rewrite mul0r.
by rewrite (alike lo hi) subrr mulr0.
Qed.
Lemma survival_mix E s e t m : sorted <=%R E -> e \in pairs E -> fits E s -> 0 <= t <= 1 ->
  m = t * e.1 + (1 - t) * e.2 -> survival s m = t * survival s e.1 + (1 - t) * survival s e.2.
Proof.
move=> E_sorted e_in ok /andP[t0 t1] m_is; rewrite /survival !mulrA -mulrDl; congr (_ / _).
rewrite /measured !mulr_sumr -big_split; apply: eq_measured => c c_in.
have [e12 _ _ _] := pairs_sorted (@lexx _ _) (@le_trans _ _) E_sorted e_in.
have inside : e.1 <= m <= e.2.
  rewrite m_is; apply/andP; split.
    by rewrite -[X in X <= _](subrK (t * e.1)) -{1}[e.1]mul1r -mulrBl addrC ler_add2l
      ler_wpmul2l ?subr_ge0.
  by rewrite -[X in _ <= X](addrK (t * e.2)) -addrA -{2}[e.2]mul1r addrCA -mulrBl ler_add2r
      ler_wpmul2l.
have ends : (e.1 <= e.1 <= e.2) && (e.1 <= e.2 <= e.2) by rewrite !lexx e12.
case/andP: ends => end1 end2; rewrite /= ![_ * (mass c * _)]mulrCA -mulrDr; congr (_ * _).
rewrite /beyond ![_ * (_ / _)]mulrA -mulrDl; congr (_ / _).
have mixed (x y z : R) : t * (x - y) + (1 - t) * (x - z) = x - (t * y + (1 - t) * z).
  by rewrite !mulrBr addrACA -mulrDl [t + _]addrC subrK mul1r opprD.
rewrite mixed; congr (_ - _); case: (cell_piece E_sorted e_in ok c_in) => [[same _]|[same _]].
  by rewrite !same.
by rewrite (same m) // (same e.2) // -mulrDl [t + _]addrC subrK mul1r.
Qed.
Lemma survival_first E s u : fits E s -> (forall x, x \in E -> u <= x) -> survival s u = 1.
Proof.
move=> ok first; have /and3P[_ pos edges] := ok.
rewrite /survival; suff -> : measured (beyond u) s = reach s by rewrite divff ?gt_eqF.
rewrite reachE; apply: eq_measured => c c_in; have c_ok := in_proper ok c_in.
have lo_in : (low c : R) \in E.
  by elim: s edges c_in {ok pos} => [|d s IH] //= /and3P[lo_in _ edges] [<-//|]; apply: IH.
case/and4P: (c_ok) => _ ab _ _.
by rewrite /beyond clamp_below ?first // divff // width_neq0.
Qed.
Lemma survival_last E s u : fits E s -> (forall x, x \in E -> x <= u) -> survival s u = 0.
Proof.
move=> ok last; have /and3P[_ pos edges] := ok.
rewrite /survival; suff -> : measured (beyond u) s = 0 by rewrite mul0r.
transitivity (\sum_(c <- s) (0 : R)); last by rewrite big1.
apply: eq_measured => c c_in; have c_ok := in_proper ok c_in.
have hi_in : (high c : R) \in E.
  by elim: s edges c_in {ok pos} => [|d s IH] //= /and3P[_ hi_in edges] [<-//|]; apply: IH.
by case/and4P: (c_ok) => _ ab _ _; rewrite /beyond clamp_above ?last // subrr mul0r mulr0.
Qed.
Lemma survival_falls E s u v : fits E s -> u <= v -> survival s v <= survival s u.
Proof.
move=> ok uv; have /and3P[_ pos _] := ok; rewrite ler_wpmul2r ?invr_ge0 ?(ltW pos) //.
rewrite -subr_ge0 /measured -sumrB.
have : forall c, List.In c s -> 0 <= (mass c : R) * beyond u (low c) (high c) -
    (mass c : R) * beyond v (low c) (high c).
  move=> c /(in_proper ok)/and4P[_ ab _ m0]; rewrite -mulrBr -mulrBl mulr_ge0 ?(ltW m0) //.
  rewrite divr_ge0 ?subr_ge0 ?(ltW ab) // ler_add2l ler_opp2.
  rewrite /clamp le_maxl le_maxr lexx /= le_maxr; apply/orP; right.
  by rewrite le_minr !le_minl uv lexx !orbT.
elim: s {ok pos} => [|c s IH] ge0; first by rewrite big_nil.
by rewrite big_cons addr_ge0 ?ge0 //; [left|apply: IH => d d_in; apply: ge0; right].
Qed.

(* For path i and two neighbouring scores: the probability that its score is the smallest, and
   between them. *)
Definition factors ss (e : R * R) : seq (R * R) :=
  [seq (survival s e.2, survival s e.1 - survival s e.2) | s <- ss].
Definition won i ss (e : R * R) : R := nth 0 (map snd (factors ss e)) i *
  area (\prod_(f <- without i (factors ss e)) (f.1%:P + f.2 *: 'X)).
Definition won_along i ss E : R := \sum_(e <- pairs E) won i ss e.

Lemma won_mix E ss i e t m : sorted <=%R E -> e \in pairs E -> all (fits E) ss -> 0 <= t <= 1 ->
  m = t * e.1 + (1 - t) * e.2 -> won i ss (e.1, m) + won i ss (m, e.2) = won i ss e.
Proof.
move=> E_sorted e_in ok t01 m_is.
have mix s : fits E s -> survival s m = survival s e.2 + t * (survival s e.1 - survival s e.2).
  move=> s_ok; rewrite (survival_mix E_sorted e_in s_ok t01 m_is).
  by rewrite mulrBr mulrBl mul1r addrC addrA addrAC.
pose upper (f : R * R) : R * R := (f.1 + t * f.2, (1 - t) * f.2).
pose under_ (f : R * R) : R * R := (f.1, t * f.2).
have upperE : factors ss (e.1, m) = map upper (factors ss e).
  rewrite -map_comp; apply: eq_map_all ok _ => s s_ok; rewrite /upper /= mix //.
  by congr (_, _); rewrite opprD addrA mulrBl mul1r.
have underE : factors ss (m, e.2) = map under_ (factors ss e).
  rewrite -map_comp; apply: eq_map_all ok _ => s s_ok; rewrite /under_ /= mix //.
  by congr (_, _); rewrite addrAC subrr add0r.
rewrite /won upperE underE; move: (factors ss e) => fs.
have nth_scaled (k : R) (g : R * R -> R * R) : (forall f, (g f).2 = k * f.2) ->
    nth 0 (map snd (map g fs)) i = k * nth 0 (map snd fs) i.
  move=> scaled; by elim: fs i => [|f fs IH] [|i] //=; rewrite ?mulr0.
have composed (g : R * R -> R * R) (x y : R) : (forall f, (g f).1 = f.1 + x * f.2) ->
    (forall f, (g f).2 = y * f.2) ->
    \prod_(f <- without i (map g fs)) (f.1%:P + f.2 *: 'X) =
    (\prod_(f <- without i fs) (f.1%:P + f.2 *: 'X)) \Po (x%:P + y *: 'X).
  move=> g1 g2; rewrite -map_without big_map.
  pose at_line (P : {poly R}) := P \Po (x%:P + y *: 'X).
  have multiplies : {morph at_line : P Q / P * Q} by move=> P Q; rewrite /at_line comp_polyM.
  have at_one : at_line 1 = 1 by rewrite /at_line -polyC1 comp_polyC.
  rewrite -[RHS]/(at_line _) (big_morph at_line multiplies at_one) /at_line.
  apply: eq_bigr => f _; rewrite comp_polyD comp_polyC comp_polyZ comp_polyX g1 g2.
  by rewrite polyCD scalerDr scalerA addrA -[f.2 *: _%:P]mul_polyC -polyCM mulrC [y * _]mulrC.
rewrite (nth_scaled (1 - t)) // (nth_scaled t) // (composed _ t (1 - t)) // (composed _ 0 t) //;
  last by move=> f; rewrite mul0r addr0.
by rewrite ![_ * nth _ _ _]mulrC -!mulrA -mulrDr area_split.
Qed.

(* One more place to look at changes nothing. *)
Fixpoint insert m E := if E is x :: E' then if m <= x then m :: E else x :: insert m E' else [:: m].
Lemma insert_chain (F : R * R -> R) m x E : x <= m -> sorted <=%R (x :: E) ->
  (forall e, e \in pairs (x :: E) -> e.1 <= m <= e.2 -> F (e.1, m) + F (m, e.2) = F e) ->
  (last x E <= m -> F (last x E, m) = 0) ->
  \sum_(e <- pairs (x :: insert m E)) F e = \sum_(e <- pairs (x :: E)) F e.
Proof.
elim: E x => [|y E IH] x xm sorted_E inside after_last.
  by rewrite /pairs /= big_seq1 big_nil after_last.
rewrite [insert _ _]/=; case: (lerP m y) => [my|ym].
  rewrite !pairs_cons !big_cons addrA (inside (x, y)) ?pairs_cons ?mem_head //.
  by rewrite /= xm.
rewrite !pairs_cons !big_cons IH ?(ltW ym) //; first by case/andP: sorted_E.
by move=> e e_in; apply: inside; rewrite pairs_cons in_cons e_in orbT.
Qed.
Lemma insert_sorted m E : sorted <=%R E -> sorted <=%R (insert m E).
Proof.
case: E => [//|x E] /= sorted_E; case: (lerP m x) => [mx|xm] /=; first by rewrite ?mx.
elim: E x xm sorted_E => [|y E IH] x xm /=; first by rewrite (ltW xm).
by move=> /andP[xy sorted_E]; case: (lerP m y) => [my|ym] /=; rewrite ?(ltW xm) ?my ?xy //= IH.
Qed.
Lemma insert_perm m E : perm_eq (insert m E) (m :: E).
Proof.
elim: E => [//|x E IH] /=; case: ifP => // _.
rewrite (perm_trans (_ : perm_eq _ (x :: m :: E))) ?perm_cons //.
by rewrite -cat1s -[m :: _]cat1s perm_catCA.
Qed.
Lemma sort_insert m E : sort <=%R (m :: E) = insert m (sort <=%R E).
Proof.
have le_asym : antisymmetric (<=%R : rel R) by move=> x y; apply: le_anti.
apply: (sorted_eq (@le_trans _ _) le_asym); first exact: (sort_sorted le_total).
  by apply: insert_sorted; apply: (sort_sorted le_total).
rewrite perm_sort perm_sym (perm_trans (insert_perm _ _)) // perm_cons perm_sort.
exact: perm_refl.
Qed.

Lemma fits_sub E E' s : {subset E <= E'} -> fits E s -> fits E' s.
Proof.
move=> sub /and3P[ok pos edges]; rewrite /fits ok pos /=.
by apply: sub_all edges => x; apply: sub.
Qed.
Let won_nowhere E i ss e v : all (fits E) ss ->
  (forall s, fits E s -> survival s e.1 = v) -> (forall s, fits E s -> survival s e.2 = v) ->
  won i ss e = 0.
Proof.
move=> ok at1 at2; rewrite /won -map_comp (eq_map_all (g := fun=> 0) ok) => [|s s_ok /=].
  have -> : nth 0 [seq 0 | _ <- ss] i = 0 :> R by elim: ss i {ok} => [|s ss IH] [|i] /=.
  by rewrite mul0r.
by rewrite at1 // at2 // subrr.
Qed.
Lemma won_insert E i ss m : sorted <=%R E -> all (fits E) ss ->
  won_along i ss (insert m E) = won_along i ss E.
Proof.
rewrite /won_along; case: E => [|x E] sorted_E ok; first by rewrite /pairs /= !big_nil.
have first y : y \in x :: E -> x <= y.
  by rewrite inE => /orP[/eqP->//|]; apply/allP; apply: order_path_min => //; apply: le_trans.
rewrite /=; case: (lerP m x) => [mx|xm].
  rewrite pairs_cons big_cons (@won_nowhere (x :: E) i ss _ 1 ok) ?add0r // => s s_ok.
    by apply: survival_first s_ok _ => y /first; apply: le_trans.
  exact: survival_first s_ok first.
apply: insert_chain (sorted_E) _ _; first exact: ltW.
  move=> [a b] e_in /andP[/= am mb].
  have [/= ab _ _ _] := pairs_sorted (@lexx _ _) (@le_trans _ _) sorted_E e_in.
  have [t t01 m_is] : exists2 t : R, 0 <= t <= 1 & m = t * a + (1 - t) * b.
    move: ab; rewrite le_eqVlt => /orP[/eqP ab|ab].
      exists 1; rewrite ?ler01 ?lexx // mul1r subrr mul0r addr0.
      by apply/eqP; rewrite eq_le am ab mb.
    have pos : 0 < b - a by rewrite subr_gt0.
    exists ((b - m) / (b - a)).
      by rewrite divr_ge0 ?subr_ge0 // ?(ltW ab) // ler_pdivr_mulr // mul1r ler_add2l ler_opp2.
    have -> (t : R) : t * a + (1 - t) * b = b - t * (b - a).
      by rewrite mulrBl mul1r mulrBr opprB addrCA.
    by rewrite divfK ?gt_eqF // opprB addrCA subrr addr0.
  exact: (won_mix i sorted_E e_in ok t01 m_is).
move=> last_m; have last_above y : y \in x :: E -> y <= last x E.
  move: sorted_E; rewrite inE /=; elim: E x y {ok first xm last_m} => [|z E IH] x y /=.
    by rewrite orbF => _ /eqP->.
  move=> /andP[xz sorted_E] /orP[/eqP->|]; last exact: IH.
  by apply: le_trans xz (IH z z sorted_E _); rewrite eqxx.
apply: (@won_nowhere (x :: E) i ss _ 0 ok) => s s_ok; apply: survival_last s_ok _ => y y_in.
  exact: last_above.
exact: le_trans (last_above y y_in) last_m.
Qed.
Lemma won_more E E' i ss : all (fits (sort <=%R E)) ss ->
  won_along i ss (sort <=%R (E' ++ E)) = won_along i ss (sort <=%R E).
Proof.
move=> ok; elim: E' => [//|m E' IH]; rewrite cat_cons sort_insert won_insert //.
  exact: (sort_sorted le_total).
apply: sub_all ok => s; apply: fits_sub => x; rewrite !mem_sort mem_cat => ->.
by rewrite orbT.
Qed.
Lemma won_anywhere E E' i ss : sorted <=%R E -> all (fits E) ss -> sorted <=%R E' ->
  all (fits E') ss -> won_along i ss E = won_along i ss E'.
Proof.
have same (F : seq R) : sorted <=%R F -> sort <=%R F = F.
  by apply: sorted_sort => x y z; apply: le_trans.
move=> E_sorted ok E'_sorted ok'.
have more F F' : sorted <=%R F -> all (fits F) ss ->
    won_along i ss F = won_along i ss (sort <=%R (F' ++ F)).
  by move=> F_sorted F_ok; rewrite won_more same.
rewrite (more E E') // (more E' E) //; congr won_along.
have le_asym : antisymmetric (<=%R : rel R) by move=> x y; apply: le_anti.
apply: (sorted_eq (@le_trans _ _) le_asym); try exact: (sort_sorted le_total).
by rewrite perm_sort perm_sym perm_sort perm_catC.
Qed.

Lemma smallestE E i ss x later : sorted <=%R E -> all (fits E) ss ->
  (forall e, e \in pairs (x :: later) -> e \in pairs E) ->
  smallest (N := field_numbers R) ss i (x :: later) [seq survival s x | s <- ss]
  = won_along i ss (x :: later).
Proof.
move=> E_sorted ok; elim: later x => [|y later IH] x sub.
  by rewrite /won_along /pairs /= big_nil.
rewrite /won_along pairs_cons big_cons -/(won_along _ _ _) -IH; last first.
  by move=> e e_in; apply: sub; rewrite pairs_cons in_cons e_in orbT.
have here : [seq between (x : field_numbers R) y s | s <- ss] =
    [seq survival s x - survival s y | s <- ss].
  apply: eq_map_all ok _ => s; apply: (@between_survival E s (x, y) E_sorted).
  by apply: sub; rewrite pairs_cons mem_head.
have next : [seq e.1 - e.2 | e <- zip [seq survival s x | s <- ss]
    [seq survival s x - survival s y | s <- ss]] = [seq survival s y | s <- ss].
  by elim: ss {ok here IH} => [|s ss IH] //=; rewrite IH opprB addrC subrK.
rewrite [LHS]/= here /= next; congr (_ + _).
have zipped : zip [seq survival s y | s <- ss] [seq survival s x - survival s y | s <- ss] =
    factors ss (x, y).
  by rewrite /factors; elim: ss {ok here next IH} => [|s ss IH] //=; rewrite IH.
by rewrite zipped integralE productE /won -map_comp.
Qed.
Lemma chancesE E i ss : (i < size ss)%N -> sorted <=%R E -> all (fits E) ss ->
  nth 0 (chances ss) i = won_along i ss E.
Proof.
move=> iK E_sorted ok; pose own := sort <=%R (flatten (map (@edges_of (field_numbers R)) ss)).
have own_sorted : sorted <=%R own by apply: (sort_sorted le_total).
have own_fits : all (fits own) ss.
  have : {subset flatten (map (@edges_of (field_numbers R)) ss) <= own}.
    by move=> x; rewrite mem_sort.
  move: own {own_sorted} => own; elim: ss ok {iK} => [|s ss IH] //= /andP[s_ok ok] sub.
  rewrite {}IH // => [|x x_in]; last by apply: sub; rewrite mem_cat x_in orbT.
  case/and3P: s_ok => s_ok pos _; rewrite /fits s_ok pos /= andbT.
  by apply/allP => x x_in; apply: sub; rewrite mem_cat x_in.
rewrite -(won_anywhere i own_sorted own_fits E_sorted ok).
rewrite /chances (nth_map 0%N) ?size_iota // nth_iota // add0n -/own.
case: own own_sorted own_fits => [|x later] own_sorted own_fits.
  by rewrite /won_along /pairs /= big_nil.
have -> : [seq 1 | _ <- ss] = [seq survival s x | s <- ss].
  apply: eq_map_all own_fits _ => s s_ok; rewrite (survival_first s_ok) // => y.
  rewrite inE => /orP[/eqP->//|]; apply/allP.
  by apply: order_path_min own_sorted; apply: le_trans.
exact: smallestE own_sorted own_fits _.
Qed.
End Smallest.

Section SmallestOfMany.
Variable R : realFieldType.
Local Notation law := (law (field_numbers R)).
Local Notation scores := (scores (field_numbers R)).
Implicit Types (s : scores) (ss : seq scores) (e : R * R).

Lemma telescoped (E : seq R) : sorted <=%R E -> E != [::] -> exists lo hi : R,
  [/\ lo \in E, hi \in E, forall x, x \in E -> lo <= x /\ x <= hi
    & forall H : R -> R, \sum_(e <- pairs E) (H e.1 - H e.2) = H lo - H hi].
Proof.
case: E => [//|x E] sorted_E _; exists x, (last x E); rewrite mem_head mem_last.
elim: E x sorted_E => [|y E IH] x.
  by split=> // [z|H]; rewrite ?inE ?/pairs /= ?big_nil ?subrr // => /eqP->.
move=> /andP[xy sorted_E]; have [_ _ bounds sums] := IH y sorted_E.
have y_last : y <= last y E by case: (bounds y); rewrite ?mem_head.
split=> // [z|H].
  rewrite inE => /orP[/eqP->|/bounds[yz zl]]; first by rewrite lexx (le_trans xy).
  by rewrite (le_trans xy yz).
by rewrite pairs_cons big_cons sums addrA subrK.
Qed.

Section Edges.
Variable E : seq R.
Hypothesis E_sorted : sorted <=%R E.
Hypothesis E01 : forall x, x \in E -> 0 <= x <= 1.

Lemma fits_some s : fits E s -> E != [::].
Proof.
case/and3P=> _ + edges; case: s edges => [|c s]; first by rewrite reachE /measured big_nil ltxx.
by case/and3P=> lo_in _ _ _; case: (E) lo_in.
Qed.
Lemma pair01 e : e \in pairs E -> [/\ e.1 <= e.2, 0 <= e.1 <= 1 & 0 <= e.2 <= 1].
Proof.
move=> /(pairs_sorted (@lexx _ _) (@le_trans _ _) E_sorted)[e12 e1 e2 _].
by rewrite !E01.
Qed.
Lemma survival_ge0 s u : fits E s -> 0 <= survival s u.
Proof.
move=> ok; rewrite -(survival_last (u := Num.max u 1) ok) => [|x /E01/andP[_ x1]].
  by apply: survival_falls ok _; rewrite le_maxr lexx.
by rewrite le_maxr x1 orbT.
Qed.

(* One of the paths has the smallest score. *)
Lemma chances_ge0 i ss : all (fits E) ss -> 0 <= (nth 0 (chances ss) i : R).
Proof.
move=> ok; case: (ltnP i (size ss)) => iK; last first.
  by rewrite nth_default // /chances size_map size_iota.
rewrite (chancesE iK E_sorted ok) /won_along big_seq; apply: sumr_ge0 => e e_in.
have [e12 _ _] := pair01 e_in.
have factors0 f : f \in factors ss e -> 0 <= f.1 /\ 0 <= f.2.
  elim: ss ok {iK} => [|s ss IH] //= /andP[s_ok /IH{}IH]; rewrite inE => /orP[/eqP->|//] /=.
  by rewrite survival_ge0 // subr_ge0 (survival_falls s_ok).
apply: mulr_ge0.
  have small : (i < size (factors ss e))%N by rewrite size_map.
  by rewrite (nth_map (0, 0)) //; case: (factors0 _ (mem_nth (0, 0) small)).
apply: area_ge0; apply: product_coef_ge0 => f f_in; apply: factors0.
by move: f_in; rewrite mem_cat => /orP[/mem_take|/mem_drop].
Qed.
Lemma chances_total ss : ss <> [::] -> all (fits E) ss ->
  \sum_(i < size ss) (nth 0 (chances ss) i : R) = 1.
Proof.
move=> some ok; pose all_beyond u : R := \prod_(s <- ss) survival s u.
transitivity (\sum_(e <- pairs E) (all_beyond e.1 - all_beyond e.2)).
  transitivity (\sum_(i < size ss) won_along i ss E).
    by apply: eq_bigr => i _; rewrite (chancesE (ltn_ord i) E_sorted ok).
  rewrite exchange_big /=; apply: eq_bigr => e _; rewrite /won.
  have sized : size (factors ss e) = size ss by rewrite size_map.
  rewrite -sized area_product.
  rewrite /factors !big_map; congr (_ - _).
  by apply: eq_bigr => s _ /=; rewrite addrC subrK.
case: ss some ok @all_beyond => [//|s ss] _ /andP[s_ok ok] all_beyond.
have [lo [hi [_ _ bounds ->]]] := telescoped E_sorted (fits_some s_ok).
have start u : (forall x, x \in E -> u <= x) -> all_beyond u = 1.
  move=> first; rewrite /all_beyond big_cons (survival_first s_ok first) mul1r.
  elim: ss ok {all_beyond} => [|t ss IH]; rewrite ?big_nil // big_cons /= => /andP[t_ok /IH->].
  by rewrite (survival_first t_ok first) mulr1.
rewrite start => [|x /bounds[] //]; rewrite /all_beyond big_cons.
by rewrite (survival_last s_ok) ?mul0r ?subr0 // => x /bounds[].
Qed.

Lemma regrouped (x d w r t : R) : x * (d / w) / r * t = x / w * (d * t) / r.
Proof. by rewrite -!mulrA; congr (_ * _); rewrite mulrCA; congr (_ * (_ * _)); rewrite mulrC. Qed.

Lemma in_edges s c : fits E s -> List.In c s -> (low c : R) \in E /\ (high c : R) \in E.
Proof.
case/and3P=> _ _; elim: s => [|d s IH] //= /and3P[lo_in hi_in edges] [<-|c_in] //.
exact: IH.
Qed.

(* Along the edges, a path's scores are won with what is the smallest among K of them. *)
Lemma won_value K s : fits E s ->
  \sum_(e <- pairs E) (survival s e.1 - survival s e.2) *
    (K.+1%:R * area (((1 - e.2)%:P + (e.2 - e.1) *: 'X) ^+ K)) = value K.+1 s / reach s.
Proof.
move=> ok; have [lo [hi [_ _ bounds sums]]] := telescoped E_sorted (fits_some ok).
rewrite valueE /measured mulr_suml.
pose cell_at (c : cell (field_numbers R)) u : R :=
  (mass c : R) / ((high c : R) - low c) * (1 - clamp (low c) (high c) u) ^+ K.+1 / reach s.
transitivity (\sum_(e <- pairs E) \sum_(c <- s) (cell_at c e.1 - cell_at c e.2)).
  rewrite big_seq [RHS]big_seq; apply: eq_bigr => e e_in.
  rewrite /survival -mulrBl /measured -sumrB !mulr_suml; apply: eq_measured => c c_in.
  have [e12 _ _] := pair01 e_in.
  have ends : (e.1 <= e.1 <= e.2) && (e.1 <= e.2 <= e.2) by rewrite !lexx e12.
  case/andP: ends => end1 end2.
  rewrite -mulrBr /beyond -mulrBl sub_of_common /cell_at -[RHS]mulrBl -[in RHS]mulrBr.
  set area_ := _.+1%:R * _.
  have <- : (clamp (low c) (high c) e.2 - clamp (low c) (high c) e.1) * area_ =
      (1 - clamp (low c) (high c) e.1) ^+ K.+1 - (1 - clamp (low c) (high c) e.2) ^+ K.+1.
    case: (cell_piece E_sorted e_in ok c_in) => [[same _]|[same _]].
      by rewrite !same // /area_ mulrA area_power addrA subrK.
    by rewrite (same e.2) // !subrr mul0r.
  exact: regrouped.
rewrite exchange_big; apply: eq_measured => c c_in; rewrite /= (sums (cell_at c)) /cell_at.
have /and4P[_ ab _ _] := in_proper ok c_in.
have [lo_in hi_in] := in_edges ok c_in.
rewrite clamp_below ?clamp_above //; try by case: (bounds _ lo_in); case: (bounds _ hi_in).
rewrite -[LHS]mulrBl -[in LHS]mulrBr -smallest_amongE; congr (_ / _).
by rewrite mulrA divfK // subr_eq0 gt_eqF.
Qed.

(* Independent paths, each with a score that is even on [0, 1]. *)
Section Independent.
Variables (A : Type) (m : law A) (none : A) (scores_of : A -> scores).
Hypothesis m_law : is_law m.
Hypothesis m_fits : forall a, possible m a -> fits E (scores_of a).
Hypothesis m_even : forall u, 0 <= u <= 1 -> expected (fun a => survival (scores_of a) u) m = 1 - u.

Let line e a : {poly R} := (survival (scores_of a) e.2)%:P
  + (survival (scores_of a) e.1 - survival (scores_of a) e.2) *: 'X.
Let even_line e : {poly R} := (1 - e.2)%:P + (e.2 - e.1) *: 'X.

Lemma expected_line e B : e \in pairs E ->
  expected (fun a => area (B * line e a)) m = area (B * even_line e).
Proof.
move=> e_in; have [_ e1 e2] := pair01 e_in.
have lineE (t g : R) : area (B * (t%:P + g *: 'X)) = area B * t + area (B * 'X) * g.
  rewrite mulrDr area_add -scalerAr area_scale [g * _]mulrC.
  by rewrite [B * _%:P]mulrC mul_polyC area_scale [t * _]mulrC.
transitivity (expected (fun a => area B * survival (scores_of a) e.2 + area (B * 'X) *
    (survival (scores_of a) e.1 - survival (scores_of a) e.2)) m).
  by apply: eq_expected => a; rewrite lineE.
rewrite expected_add !expected_mull expected_sub !m_even // lineE; congr (_ + _ * _).
by rewrite opprB addrC addrA subrK.
Qed.
Lemma expected_lines e B n : e \in pairs E ->
  expected (fun xs => area (B * \prod_(a <- xs) line e a)) (independent m n)
  = area (B * even_line e ^+ n).
Proof.
move=> e_in; elim: n B => [|n IH] B; first by rewrite expected_ret big_nil expr0.
rewrite expected_independent; under eq_expected => a.
  under eq_expected => xs do rewrite big_cons mulrA.
  rewrite IH mulrAC; over.
by rewrite expected_line // -mulrA -exprSr.
Qed.
Lemma expected_one (h : A -> R) e B n i : e \in pairs E -> (i <= n)%N ->
  expected (fun xs => h (nth none xs i) * area (B * \prod_(a <- without i xs) line e a))
    (independent m n.+1) = expected h m * area (B * even_line e ^+ n).
Proof.
move=> e_in; elim: i n B => [|i IH] n B in_n.
  rewrite expected_independent -expected_mulr; apply: eq_expected => a.
  by rewrite -(expected_lines B n e_in) -expected_mull; apply: eq_expected => xs;
     rewrite /without /= drop0.
case: n in_n => [//|n] in_n; rewrite expected_independent; under eq_expected => a.
  under eq_expected => xs do rewrite /without /= big_cons mulrA -/(without i xs).
  rewrite IH //; over.
rewrite expected_mull; congr (_ * _); under eq_expected => a do rewrite mulrAC.
by rewrite expected_line // -mulrA -exprSr.
Qed.

Let K1 (n : nat) : (0 < n)%N -> n = n.-1.+1. Proof. by case: n. Qed.
Let all_fits n (xs : seq A) : possible (independent m n) xs ->
  size xs = n /\ all (fits E) (map scores_of xs).
Proof.
move=> /possible_independent[size_s all_s]; split=> //; rewrite all_map.
by apply: (all_s (fun a => fits E (scores_of a))).
Qed.

Lemma expected_chance (f : A -> R) n i : (i <= n)%N ->
  expected (fun xs => nth 0 (chances (map scores_of xs)) i * f (nth none xs i)) (independent m n.+1)
  = \sum_(e <- pairs E)
    expected (fun a => (survival (scores_of a) e.1 - survival (scores_of a) e.2) * f a) m
    * area (even_line e ^+ n).
Proof.
move=> in_n; transitivity (expected (fun xs => \sum_(e <- pairs E)
    (survival (scores_of (nth none xs i)) e.1 - survival (scores_of (nth none xs i)) e.2)
    * f (nth none xs i) * area (1 * \prod_(a <- without i xs) line e a)) (independent m n.+1)).
  apply: eq_expected_possible => xs /all_fits[size_s ok].
  have i_s : (i < size xs)%N by rewrite size_s.
  rewrite (chancesE _ E_sorted ok) ?size_map // /won_along mulr_suml; apply: eq_bigr => e _.
  rewrite /won /factors -!map_comp -map_without big_map mul1r (nth_map none) //.
  by rewrite mulrAC.
rewrite expected_sum big_seq [RHS]big_seq; apply: eq_bigr => e e_in.
rewrite -[even_line e ^+ n]mul1r -(@expected_one _ e 1 n i) //.
Qed.

Lemma expected_chances (f : A -> R) n :
  expected (fun xs => \sum_(i < n.+1) nth 0 (chances (map scores_of xs)) i * f (nth none xs i))
    (independent m n.+1)
  = expected (fun a => value n.+1 (scores_of a) / reach (scores_of a) * f a) m.
Proof.
rewrite expected_sum; transitivity (\sum_(i < n.+1) \sum_(e <- pairs E)
    expected (fun a => (survival (scores_of a) e.1 - survival (scores_of a) e.2) * f a) m
    * area (even_line e ^+ n)).
  by apply: eq_bigr => i _; apply: expected_chance; rewrite -ltnS.
rewrite sumr_const card_ord -mulr_natl mulr_sumr.
transitivity (\sum_(e <- pairs E) expected (fun a =>
    (survival (scores_of a) e.1 - survival (scores_of a) e.2)
    * (n.+1%:R * area (even_line e ^+ n)) * f a) m).
  apply: eq_bigr => e _; rewrite mulrCA -expected_mulr.
  by apply: eq_expected => a; rewrite mulrAC.
rewrite -expected_sum; apply: eq_expected_possible => a /m_fits ok.
by rewrite -(won_value n ok) mulr_suml.
Qed.
End Independent.
End Edges.
End SmallestOfMany.

(* ------------------------------------------------------------ scores that are shared out fairly *)
Section Fairly.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variable q : seq T -> T -> R.
Hypothesis q_model : is_model q.
Variable count : nat.
Hypothesis some : (0 < count)%N.
Local Notation K := count.
Local Notation law := (law (field_numbers R)).
Local Notation scores := (scores (field_numbers R)).
Local Notation path := (@path (field_numbers R) T vocabulary).
Implicit Types (z x : seq T) (a : T) (n : nat).
Variable scores_of : seq T -> scores.

(* The scores of all are those of the root, the children of a prefix share its scores out among
   them, and each has the mass of its draft. *)
Hypothesis root : scores_of [::] = uniform (field_numbers R).
Hypothesis proper_scores : forall z, all (@proper R) (scores_of z).
Hypothesis shared : forall G z, fair G ->
  \sum_a measured G (scores_of (rcons z a)) = measured G (scores_of z).
Hypothesis drafted : forall z a,
  (reach (scores_of (rcons z a)) : R) = (reach (scores_of z) : R) * q z a.
(* The next token of the selected path. *)
Variable rows : seq T -> T -> R.
Hypothesis rows_model : is_model rows.
Hypothesis rows_next : forall z a,
  rows z a * value K (scores_of z) = value K (scores_of (rcons z a)).

Lemma measured_nothing G s : all (@proper R) s -> reach s = 0 :> R -> measured G s = 0.
Proof.
case: s => [|c s]; first by rewrite /measured big_nil.
case/andP=> /and4P[_ _ _ m0] ok; rewrite reachE measured_cons mulr1 => /eqP.
rewrite paddr_eq0 ?(ltW m0) //; first by rewrite gt_eqF.
elim: s ok => [|d s IH] ok; first by rewrite /measured big_nil.
case/andP: ok => /and4P[_ _ _ d0] /IH ok.
by rewrite measured_cons mulr1 addr_ge0 // ltW.
Qed.
Lemma reach_ge0 z : 0 <= (reach (scores_of z) : R).
Proof.
rewrite reachE; elim: (scores_of z) (proper_scores z) => [|d s IH].
  by rewrite /measured big_nil.
by case/andP=> /and4P[_ _ _ d0] /IH ok; rewrite measured_cons mulr1 addr_ge0 // ltW.
Qed.
Let share_of_nothing G z :
  (reach (scores_of z) : R) * (measured G (scores_of z) / reach (scores_of z))
  = measured G (scores_of z).
Proof.
have [zero|nz] := eqVneq (reach (scores_of z) : R) 0; last by rewrite mulrC divfK.
by rewrite zero mul0r (measured_nothing _ (proper_scores z)).
Qed.

Lemma expected_share G n z : fair G -> (reach (scores_of z) : R) *
  expected (fun x => measured G (scores_of (z ++ x)) / reach (scores_of (z ++ x))) (path q n z)
  = measured G (scores_of z).
Proof.
move=> G_fair; elim: n z => [|n IH] z; first by rewrite expected_ret cats0 share_of_nothing.
rewrite (@expected_path _ _ vocabulary) (expected_draw_row complete) // mulr_sumr -shared //.
apply: eq_bigr => a _; rewrite mulrA -drafted -IH; congr (_ * _).
by apply: eq_expected => x; rewrite cat_rcons.
Qed.
Lemma expected_value f n z : (reach (scores_of z) : R) *
  expected (fun x => value K (scores_of (z ++ x)) / reach (scores_of (z ++ x)) * f x) (path q n z)
  = (value K (scores_of z) : R) * expected f (path rows n z).
Proof.
elim: n z f => [|n IH] z f.
  by rewrite !expected_ret cats0 mulrA valueE share_of_nothing.
rewrite !(@expected_path _ _ vocabulary) !(expected_draw_row complete) // !mulr_sumr.
apply: eq_bigr => a _; rewrite mulrA -drafted mulrA [_ * rows z a]mulrC rows_next.
rewrite -(IH _ (fun x => f (a :: x))); congr (_ * _).
by apply: eq_expected => x; rewrite cat_rcons.
Qed.

Lemma possible_drafted n z x : 0 < (reach (scores_of z) : R) -> possible (path q n z) x ->
  0 < (reach (scores_of (z ++ x)) : R).
Proof.
elim: n z x => [|n IH] z x pos can; first by rewrite (possible_ret can) cats0.
rewrite [path _ _ _]/= in can.
have [a a_can {}can] := possible_bind can; have [y y_can {}can] := possible_bind can.
rewrite (possible_ret can) -cat_rcons; apply: IH y_can.
rewrite drafted mulr_gt0 // lt_def; have [-> _] := q_model z; rewrite andbT.
by move/possible_draw: a_can; rewrite /normalised mulf_eq0 negb_or => /andP[].
Qed.

Section Length.
Variable n : nat.
Let drafts : law (seq T) := path q n [::].
Let E : seq R :=
  sort <=%R (flatten [seq edges_of (scores_of o.1) : seq R | o <- drafts]).

Let E_sorted : sorted <=%R E. Proof. exact: (sort_sorted le_total). Qed.
Let E01 (x : R) : x \in E -> 0 <= x <= 1.
Proof.
rewrite mem_sort; elim: drafts => [|o m IH] //=; rewrite mem_cat => /orP[|//].
elim: (scores_of o.1) (proper_scores o.1) => [|c s IHs] //=.
case/andP=> /and4P[lo0 lohi hi1 _] ok; rewrite !inE => /or3P[/eqP->|/eqP->|].
- by rewrite lo0 (le_trans (ltW lohi)).
- by rewrite hi1 (le_trans lo0 (ltW lohi)).
exact: IHs.
Qed.
Let reach_root : reach (scores_of [::]) = 1 :> R.
Proof. by rewrite root /reach /= addr0. Qed.
Let drafts_fit x : possible drafts x -> fits E (scores_of x).
Proof.
move=> can; rewrite /fits proper_scores (possible_drafted (z := [::]) _ can) ?reach_root ?ltr01 //=.
have listed (m : law (seq T)) (E' : seq R) w : List.In (x, w) m ->
    {subset flatten [seq edges_of (scores_of o.1) : seq R | o <- m] <= E'} ->
    all (fun u : R => u \in E') (edges_of (scores_of x)).
  elim: m => [|o m IH] //= [->|x_in] sub.
    by apply/allP => u u_in; apply: sub; rewrite mem_cat u_in.
  by apply: IH x_in _ => u u_in; apply: sub; rewrite mem_cat u_in orbT.
by case: can => w x_in _; apply: listed x_in _ => u; rewrite mem_sort.
Qed.
Let drafts_even u : 0 <= u <= 1 -> expected (fun x => survival (scores_of x) u) drafts = 1 - u.
Proof.
move=> /andP[u0 u1]; transitivity (measured (beyond u) (scores_of [::])).
  by rewrite -(expected_share n [::] (@fair_beyond _ u)) reach_root mul1r.
rewrite root /measured /uniform big_seq1 /= mul1r /beyond subr0 divr1 clamp_inside //.
Qed.
Let drafts_law : is_law drafts. Proof. exact: (law_path complete q_model n [::]). Qed.

Let expected_draw_places (r : nat -> R) (g : nat -> R) k : \sum_(i < k) r i = 1 ->
  expected g (draw (N := field_numbers R) (iota 0 k) r) = \sum_(i < k) r i * g i.
Proof.
move=> r1; have sums (h : nat -> R) : foldr (fun i s => h i + s) 0 (iota 0 k) = \sum_(i < k) h i.
  rewrite -(big_mkord xpredT h) /index_iota subn0 unlock /reducebig.
  by elim: (iota 0 k) => //= i s ->.
rewrite /draw /normalised /total /= sums r1 -(sums (fun i => r i * g i)).
elim: (iota 0 k) => [|i s IH] //=.
by rewrite expected_cons IH divr1.
Qed.
Let selecting f xs : possible (independent drafts K) xs ->
  expected f (select scores_of xs) =
  \sum_(i < K) nth 0 (chances (map scores_of xs)) i * f (nth [::] xs i) /\
  is_law (select scores_of xs).
Proof.
move=> /possible_independent[size_xs fit_xs].
have ok : all (fits E) (map scores_of xs).
  by rewrite all_map; apply: (fit_xs (fun x => fits E (scores_of x))) => x; apply: drafts_fit.
have total1 : \sum_(i < size xs) (nth 0 (chances (map scores_of xs)) i : R) = 1.
  rewrite -[size xs](size_map scores_of); apply: chances_total ok => //.
  by move=> none; move: some; rewrite -size_xs -(size_map scores_of) none.
split.
  rewrite expected_bind expected_draw_places // size_xs; apply: eq_bigr => i _.
  by rewrite expected_ret.
apply: law_bind => [|i]; last exact: law_ret.
split; last by rewrite expected_draw_places //; under eq_bigr do rewrite mulr1.
move=> o /List.in_map_iff[i [<- _]] /=; rewrite /normalised /= divr_ge0 //.
  exact: (chances_ge0 E_sorted E01 i ok).
rewrite /total; elim: (iota _ _) => [|j s IH] /=; first exact: lexx.
by rewrite addr_ge0 //; apply: (chances_ge0 E_sorted E01 j ok).
Qed.

Lemma law_select xs : possible (independent drafts K) xs -> is_law (select scores_of xs).
Proof. by move=> can; case: (selecting (fun=> 0) can). Qed.

(* Whatever shares out the scores fairly, the path with the smallest of K scores has the law of the
   rows that its own scores give. *)
Theorem selected_fairly :
  selects vocabulary rows n (xs <- independent drafts K ;; select scores_of xs).
Proof.
move=> f; rewrite expected_bind.
rewrite (eq_expected_possible (fun xs can => proj1 (selecting f can))).
have -> : K = K.-1.+1 by rewrite prednK.
rewrite (expected_chances E_sorted E01 [::] drafts_fit drafts_even).
rewrite prednK //; have := expected_value f n [::]; rewrite reach_root mul1r => ->.
suff -> : value K (scores_of [::]) = 1 :> R by rewrite mul1r.
rewrite root valueE /measured /uniform big_seq1 /= mul1r.
by have := smallest_amongE K (0 : R) 1; rewrite subr0 mul1r subrr expr1n expr0n gtn_eqF // subr0.
Qed.
(* The selection is a law. *)
Theorem selected_fairly_law : is_law (xs <- independent drafts K ;; select scores_of xs).
Proof.
apply: law_bind_possible => [|xs can]; first exact: law_independent.
by case: (selecting (fun=> 0) can).
Qed.
End Length.
End Fairly.

(* -------------------------------------------------------------- hands cut off a stack of scores *)
Section Dealing.
Variable R : realFieldType.
Local Notation cell := (cell (field_numbers R)).
Local Notation scores := (scores (field_numbers R)).
Implicit Types (c : cell) (s stack hand : scores) (u v : R) (G : R -> R -> R).

(* Cells that lie one above the other, the first above a score. *)
Fixpoint ordered u s : bool :=
  if s is c :: s' then [&& u <= (low c : R), proper c & ordered (high c) s'] else true.
Definition upper u s : R := last u [seq (high c : R) | c <- s].

Lemma ordered_cat u s s' : ordered u (s ++ s') = ordered u s && ordered (upper u s) s'.
Proof. by elim: s u => [|c s IH] u //=; rewrite IH !andbA. Qed.
Lemma ordered_proper u s : ordered u s -> all (@proper R) s.
Proof. by elim: s u => [|c s IH] u //= /and3P[_ -> /IH]. Qed.
Lemma ordered_lower u v s : u <= v -> ordered v s -> ordered u s.
Proof. by case: s => [|c s] //= uv /and3P[vl -> ->]; rewrite (le_trans uv vl). Qed.
Lemma ordered_upper u s : ordered u s -> u <= upper u s.
Proof.
elim: s u => [|c s IH] u //=; rewrite /upper /= ?lexx // => /and3P[ul /and4P[_ lh _ _] /IH].
by apply: le_trans; apply: le_trans ul (ltW lh).
Qed.

Lemma reach_cons c s : reach (c :: s) = (mass c : R) + reach s.
Proof. by []. Qed.
Lemma proper_reach s : all (@proper R) s -> 0 <= (reach s : R).
Proof.
elim: s => [|c s IH] //= /andP[/and4P[_ _ _ m0] /IH r0].
by rewrite reach_cons addr_ge0 // ltW.
Qed.

Lemma cutP u stack (needed : R) : ordered u stack -> 0 <= needed -> needed <= reach stack ->
  let hand := (cut (N := field_numbers R) stack needed).1 in
  let rest := (cut (N := field_numbers R) stack needed).2 in
  [/\ ordered u (hand ++ rest), reach hand = needed
    & forall G, fair G -> measured G (hand ++ rest) = measured G stack].
Proof.
elim: stack u needed => [|c s IH] u needed.
  move=> _ n0 /= nr; have -> : needed = 0 by apply/eqP; rewrite eq_le n0 nr.
  by rewrite lexx.
move=> ok n0 nr; rewrite [cut _ _]/=; case: (lerP needed 0) => [nle|npos].
  have -> : needed = 0 by apply/eqP; rewrite eq_le nle n0.
  by split.
have /and3P[ul c_ok s_ok] := ok; have /and4P[lo0 lohi hi1 m0] := c_ok.
case: (lerP needed (mass c : R)) => [nm|mn]; last first.
  have := IH (high c) (needed - (mass c : R)) s_ok; rewrite subr_ge0 (ltW mn) => /(_ isT).
  rewrite ler_subl_addl => /(_ nr); case: (cut _ _) => hand rest /= [hr_ok reach_hand same].
  split; first by rewrite ul c_ok.
    by rewrite reach_cons reach_hand addrC subrK.
  by move=> G G_fair; rewrite measured_cons same // measured_cons.
pose t := needed / (mass c : R); have w0 : 0 < (high c : R) - low c by rewrite subr_gt0.
have tm : (mass c : R) * t = needed by rewrite /t mulrC divfK ?gt_eqF.
have edgeE : (low c : R) + ((high c : R) - low c) * needed / (mass c : R)
    = (low c : R) + ((high c : R) - low c) * t by rewrite mulrA.
rewrite /= edgeE; case: (lerP (mass c : R) needed) => [mn|nm'] /=.
  have same : needed = mass c by apply/eqP; rewrite eq_le nm mn.
  have -> : (low c : R) + ((high c : R) - low c) * t = high c.
    by rewrite /t same divff ?gt_eqF // mulr1 addrC subrK.
  rewrite same; split.
  - by apply/and3P; split=> //; rewrite /proper /= lo0 lohi hi1 m0.
  - by rewrite /reach /= addr0.
  by move=> G _; rewrite !measured_cons.
have t01 : 0 < t /\ t < 1 by rewrite /t divr_gt0 // ltr_pdivr_mulr // mul1r.
case: t01 => t0 t1; clearbody t; set edge := _ + _ * t.
have le1 : (low c : R) < edge by rewrite ltr_addl mulr_gt0.
have le2 : edge < (high c : R).
  by rewrite /edge -ltr_subr_addl gtr_pmulr.
split=> /=.
- apply/and3P; split=> //; first by rewrite /proper /= lo0 le1 (le_trans (ltW le2) hi1) npos.
  apply/and3P; split=> //.
  by rewrite /proper /= (le_trans lo0 (ltW le1)) le2 hi1 subr_gt0 nm'.
- by rewrite /reach /= addr0.
move=> G /(_ _ _ _ le1 le2) same; rewrite !measured_cons /= addrA; congr (_ + _).
have e1 : edge - low c = ((high c : R) - low c) * t by rewrite /edge addrC addKr.
have e2 : (high c : R) - edge = ((high c : R) - low c) * (1 - t).
  by rewrite mulrBr mulr1 -e1 opprB addrA subrK.
have := congr1 (fun x => (mass c : R) / ((high c : R) - low c) * x) same.
rewrite e1 e2 /= -!mulrA -mulrDr !mulKf ?gt_eqF // mulrDr => <-; congr (_ + _); rewrite mulrA.
  by rewrite tm.
by rewrite mulrBr mulr1 tm.
Qed.

Lemma dealtP u stack (ms : seq R) : ordered u stack -> all (fun m => 0 <= m) ms ->
  \sum_(m <- ms) m = reach stack -> let hands := dealt (N := field_numbers R) stack ms in
  [/\ ordered u (flatten hands), [seq reach hand : R | hand <- hands] = ms
    & forall G, fair G -> measured G (flatten hands) = measured G stack].
Proof.
elim: ms u stack => [|m ms IH] u stack ok.
  rewrite big_nil => _ none; split=> // G _; rewrite (measured_nothing G (ordered_proper ok)) //.
  by rewrite /measured big_nil.
case/andP=> m0 ms0; rewrite big_cons => total_ms.
have ms_ge0 : 0 <= \sum_(m <- ms) m.
  by rewrite big_seq; apply: sumr_ge0 => x; apply: (allP ms0).
have [] := cutP ok m0; first by rewrite -total_ms ler_addl.
rewrite [dealt _ _]/=; case: (cut _ _) => hand rest /= cut_ok hand_m same.
move: cut_ok; rewrite ordered_cat => /andP[hand_ok rest_ok].
have [|flat_ok reaches same'] := IH _ _ rest_ok ms0.
  have := same _ (@fair_one R); rewrite measured_cat -!reachE hand_m -total_ms.
  by move/addrI->.
by rewrite ordered_cat hand_ok flat_ok reaches hand_m; split=> // G G_fair;
  rewrite measured_cat same' // -measured_cat same.
Qed.

(* What is the smallest at one score. *)
Definition smallest_at K u : R := K%:R * (1 - u) ^+ K.-1.
Lemma smallest_at_falls K u v : u <= v -> v <= 1 -> smallest_at K v <= smallest_at K u.
Proof.
move=> uv v1; rewrite ler_wpmul2l ?ler0n // ler_expn2r ?nnegrE ?subr_ge0 //.
  exact: le_trans uv v1.
by rewrite ler_add2l ler_opp2.
Qed.
Lemma smallest_among_at K u v : u <= v -> v <= 1 ->
  smallest_at K v <= smallest_among K u v <= smallest_at K u.
Proof.
move=> uv v1; have u1 := le_trans uv v1; have x0 : 0 <= 1 - u by rewrite subr_ge0.
have y0 : 0 <= 1 - v by rewrite subr_ge0.
have yx : 1 - v <= 1 - u by rewrite ler_add2l ler_opp2.
have sums w : smallest_at K w = \sum_(i < K) (1 - w) ^+ i * (1 - w) ^+ (K.-1 - i).
  rewrite (eq_bigr (fun=> (1 - w) ^+ K.-1)) => [|i _].
    by rewrite sumr_const card_ord /smallest_at mulr_natl.
  by rewrite -exprD subnKC // -ltnS prednK // (leq_trans _ (ltn_ord i)).
by rewrite !sums; apply/andP; split; apply: ler_sum => i _;
  rewrite ler_pmul ?exprn_ge0 ?ler_expn2r ?nnegrE.
Qed.
Lemma value_at K u s : ordered u s -> upper u s <= 1 ->
  smallest_at K (upper u s) * reach s <= value K s <= smallest_at K u * reach s.
Proof.
rewrite reachE valueE; elim: s u => [|c s IH] u ok top.
  by rewrite /measured !big_nil !mulr0 lexx.
have /and3P[ul /and4P[_ lohi hi1 m0] s_ok] := ok.
have /andP[low_s high_s] := IH _ s_ok top.
have /andP[low_c high_c] := smallest_among_at K (ltW lohi) hi1.
have above := ordered_upper s_ok.
rewrite !measured_cons /one_each mulr1 !mulrDr ![smallest_at _ _ * (mass c : R)]mulrC.
apply/andP; split; apply: ler_add.
- by apply: ler_wpmul2l; [exact: ltW|apply: le_trans low_c; apply: smallest_at_falls].
- exact: low_s.
- apply: ler_wpmul2l; [exact: ltW|apply: le_trans high_c _; apply: smallest_at_falls => //].
  exact: le_trans (ltW lohi) hi1.
apply: le_trans high_s _; rewrite ler_wpmul2r ?smallest_at_falls //.
  by rewrite -reachE proper_reach // (ordered_proper s_ok).
exact: le_trans ul (ltW lohi).
Qed.
Lemma ordered_top u s : ordered u s -> u <= 1 -> upper u s <= 1.
Proof.
elim: s u => [|c s IH] u //= /and3P[_ /and4P[_ _ hi1 _] ok] _.
exact: IH ok hi1.
Qed.
(* The smallest scores are worth most. *)
Lemma hands_fall K u (hands : seq scores) i : ordered u (flatten hands) -> u <= 1 ->
  (i.+1 < size hands)%N ->
  (value K (nth [::] hands i.+1) : R) * reach (nth [::] hands i)
  <= (value K (nth [::] hands i) : R) * reach (nth [::] hands i.+1).
Proof.
elim: hands u i => [|hand hands IH] u i //=.
rewrite ordered_cat => /andP[hand_ok ok] u1 i_in.
have top := ordered_top hand_ok u1; case: i i_in => [|i] i_in; last exact: IH ok top i_in.
case: hands ok i_in {IH} => [|next hands] //=; rewrite ordered_cat => /andP[next_ok _] _.
have /andP[low_v _] := value_at K hand_ok top.
have /andP[_ high_v] := value_at K next_ok (ordered_top next_ok top).
have r0 := proper_reach (ordered_proper hand_ok).
have r0' := proper_reach (ordered_proper next_ok).
apply: le_trans (ler_wpmul2r r0 high_v) _; rewrite mulrAC; exact: ler_wpmul2r.
Qed.
End Dealing.

(* ---------------------------------------------------------------------------------- tie classes *)
Lemma count_less (A : eqType) (P Q : pred A) (s : seq A) a : a \in s -> P a -> ~~ Q a ->
  (forall b, b \in s -> Q b -> P b) -> (count Q s < count P s)%N.
Proof.
elim: s => [|b s IH] // + Pa not_Qa sub; rewrite inE => /orP[/eqP<-|a_in] /=.
  rewrite Pa (negbTE not_Qa) add0n add1n ltnS.
  elim: s sub {IH} => [|c s IHs] sub //=; apply: leq_add; last first.
    apply: IHs => d; rewrite inE => /orP[/eqP->|d_in]; apply: sub;
    by rewrite !inE ?eqxx ?d_in ?orbT.
  by case E: (Q c) => //; rewrite sub // !inE eqxx orbT.
rewrite -addnS; apply: leq_add; last by apply: IH => // c c_in; apply: sub; rewrite inE c_in orbT.
by case E: (Q b) => //; rewrite sub // inE eqxx.
Qed.

Section TieClasses.
Variable R : realFieldType.
Implicit Types (i j k r : nat) (x : R) (edges : seq nat) (h : nat -> R).

Lemma foldl_least x (s : seq R) : let y : R := foldl (@least (field_numbers R)) x s in
  [/\ y <= x, forall z, z \in s -> y <= z & y = x \/ y \in s].
Proof.
elim: s x => [|z s IH] x /=; first by split; rewrite ?lexx //; left.
have [le_x le_s in_s] := IH (least (N := field_numbers R) x z).
have := le_x; rewrite {2}leastE le_minr => /andP[yx yz]; split=> // [t|].
  by rewrite inE => /orP[/eqP->|/le_s].
case: in_s => [->|y_in]; last by right; rewrite inE y_in orbT.
by rewrite /least /=; case: ifP => _; [left|right; rewrite mem_head].
Qed.

Variables masses most : seq R.
Local Notation n := (size masses).
Let m k : R := nth 0 masses k.
Let w k : R := nth 0 most k.
Local Notation class := (@class).
Local Notation level := (@level (field_numbers R) masses most).
Hypothesis some : (0 < n)%N.
Hypothesis m_gt0 : forall k, (k < n)%N -> 0 < m k.
Hypothesis most_falls : forall k, (0 < k < n)%N -> w k / m k <= w k.-1 / m k.-1.

Lemma partE (s : seq R) i j : part (N := field_numbers R) s i j = \sum_(i <= k < j) nth 0 s k.
Proof. exact: sum_rangeE. Qed.
Lemma heightE (s : seq R) i j : height (N := field_numbers R) masses s i j =
  (\sum_(i <= k < j) nth 0 s k) / \sum_(i <= k < j) m k.
Proof. by rewrite /height !partE. Qed.
Lemma part_gt0 i j : (i < j <= n)%N -> 0 < \sum_(i <= k < j) m k.
Proof.
case/andP=> ij jn; rewrite (big_cat_nat _ _ _ (leqnSn i)) //= big_nat1 ltr_spaddl //.
  by apply: m_gt0; apply: leq_trans jn.
rewrite big_nat; apply: sumr_ge0 => k /andP[_ kj]; apply: ltW; apply: m_gt0.
exact: leq_trans jn.
Qed.

(* An average is between the least and the greatest. *)
Lemma height_ge (s : seq R) i j x : (i < j <= n)%N ->
  (forall k, (i <= k < j)%N -> x <= nth 0 s k / m k) -> x <= height masses s i j.
Proof.
move=> ij low; rewrite heightE ler_pdivl_mulr ?part_gt0 // mulr_sumr !big_nat.
apply: ler_sum => k k_in; rewrite -ler_pdivl_mulr ?low //.
by apply: m_gt0; case/andP: ij k_in => _ jn /andP[_ kj]; apply: leq_trans jn.
Qed.
Lemma height_le (s : seq R) i j x : (i < j <= n)%N ->
  (forall k, (i <= k < j)%N -> nth 0 s k / m k <= x) -> height masses s i j <= x.
Proof.
move=> ij high; rewrite heightE ler_pdivr_mulr ?part_gt0 // mulr_sumr !big_nat.
apply: ler_sum => k k_in; rewrite -ler_pdivr_mulr ?high //.
by apply: m_gt0; case/andP: ij k_in => _ jn /andP[_ kj]; apply: leq_trans jn.
Qed.
Lemma falls_far (f : nat -> R) : (forall k, (0 < k < n)%N -> f k <= f k.-1) ->
  forall i j, (i <= j < n)%N -> f j <= f i.
Proof.
move=> falls i j /andP[]; elim: j => [|j IH]; first by rewrite leqn0 => /eqP->.
rewrite leq_eqVlt => /orP[/eqP->|]; first by rewrite lexx.
rewrite ltnS => ij jn; apply: le_trans (IH ij (ltnW jn)).
by apply: (falls j.+1); rewrite jn.
Qed.

(* Edges of classes of all ranks. *)
Definition all_ranks edges := [&& sorted ltn edges, head n edges == 0%N & last 0%N edges == n].
Section Class.
Variable edges : seq nat.
Hypothesis edges_ok : all_ranks edges.
Let sorted_edges : sorted leq edges.
Proof. by case/and3P: edges_ok => + _ _; apply: sub_sorted => i j /ltnW. Qed.
Let far e := pairs_sorted (e := e) leqnn leq_trans sorted_edges.

Lemma pair_less e : e \in pairs edges -> (e.1 < e.2 <= n)%N.
Proof.
case/and3P: edges_ok; case: edges => [//|i s] sorted_s _ /eqP/=.
elim: s i sorted_s => [|j s IH] i //= /andP[ij sorted_s] last_s.
rewrite pairs_cons inE => /orP[/eqP->|/IH]; last exact.
rewrite /= ij -last_s; elim: s j sorted_s {IH ij last_s} => [|k s IH] j //= /andP[jk sorted_s].
exact: leq_trans (ltnW jk) (IH k sorted_s).
Qed.
Lemma classP r : (r < n)%N -> class edges r \in pairs edges /\
  ((class edges r).1 <= r < (class edges r).2)%N.
Proof.
move=> rn; rewrite /class -/(pairs edges); set inside := [seq _ <- _ | _].
have : inside != [::].
  rewrite /inside -has_filter; case/and3P: edges_ok; case: edges => [|i s] _ /eqP/= i0 /eqP last_s.
    by rewrite i0 in rn.
  have : (i <= r < last i s)%N by rewrite i0 -[in last _ _]i0 last_s.
  elim: s i {i0 last_s} => [|j s IH] i /=; first by case/andP=> ir ri; rewrite ltnNge ir in ri.
  case: (ltnP r j) => [rj /andP[-> _] //|jr /andP[_ rl]].
  by apply/orP; right; apply: IH; rewrite jr.
case E: inside => [//|e s] _; have : e \in inside by rewrite E mem_head.
by rewrite mem_filter => /andP[].
Qed.
Lemma class_unique r e : (r < n)%N -> e \in pairs edges -> (e.1 <= r < e.2)%N -> class edges r = e.
Proof.
move=> rn e_in r_in; have [] := classP rn; case: (class _ _) => i j /= c_in c_r.
case: e e_in r_in => i' j' /= e_in r_in.
have [_ /= i_in j_in apart] := far c_in; have [_ /= i'_in j'_in apart'] := far e_in.
case/andP: c_r => ir rj; case/andP: r_in => ir' rj'.
have i'i : (i' <= i)%N.
  by case/orP: (apart _ i'_in) => // ji; have := leq_trans rj (leq_trans ji ir'); rewrite ltnn.
have ii' : (i <= i')%N.
  by case/orP: (apart' _ i_in) => // ji; have := leq_trans rj' (leq_trans ji ir); rewrite ltnn.
have jj' : (j <= j')%N.
  by case/orP: (apart _ j'_in) => // ji; have := leq_trans rj' (leq_trans ji ir); rewrite ltnn.
have j'j : (j' <= j)%N.
  by case/orP: (apart' _ j_in) => // ji; have := leq_trans rj (leq_trans ji ir'); rewrite ltnn.
by congr (_, _); apply/eqP; rewrite eqn_leq ?ii' ?jj'.
Qed.
Lemma last_edge : n \in edges.
Proof.
case/and3P: edges_ok => _; case: edges => [|z s] /= /eqP n0 /eqP last_n; last first.
  by rewrite -last_n mem_last.
by move: some; rewrite n0.
Qed.
Lemma levelE r : level edges r = height masses most (class edges r).1 (class edges r).2.
Proof. by rewrite /scored.level; case: (class _ _). Qed.

(* At an edge another class begins. *)
Lemma class_edge k : (0 < k < n)%N ->
  if k \in edges then (class edges k.-1).2 = k /\ (class edges k).1 = k
  else class edges k.-1 = class edges k.
Proof.
case/andP=> k0 kn; have k1n : (k.-1 < n)%N by apply: leq_ltn_trans kn; apply: leq_pred.
have [] := classP k1n; have [] := classP kn.
case: (class edges k) => i' j' /= e_in r_in.
case E: (class edges k.-1) => [i j] /= c_in c_r.
have [_ /= i_in j_in apart] := far c_in; have [_ /= i'_in j'_in apart'] := far e_in.
case/andP: c_r => ir rj; case/andP: r_in => ir' rj'.
have jk : (k <= j)%N by rewrite -(prednK k0).
case: ifP => [k_in|k_out].
  split; apply/eqP; rewrite eqn_leq.
    rewrite jk andbT; case/orP: (apart _ k_in) => // ki; move: (leq_trans ki ir).
    by rewrite -{1}(prednK k0) ltnn.
  by rewrite ir' /=; case/orP: (apart' _ k_in) => // ki; move: (leq_trans rj' ki); rewrite ltnn.
have kj : (k < j)%N by rewrite ltn_neqAle jk andbT; apply: contraFN k_out => /eqP->.
rewrite -E; apply: class_unique => //=; move: ir'; rewrite leq_eqVlt => /orP[/eqP i'k|i'k].
  by rewrite -i'k i'_in in k_out.
by apply/andP; split; [rewrite -ltnS prednK|apply: leq_ltn_trans rj'; apply: leq_pred].
Qed.
Lemma level_falls k : (0 < k < n)%N -> level edges k <= level edges k.-1.
Proof.
move=> k_in; have := class_edge k_in; case/andP: (k_in) => k0 kn.
have k1n : (k.-1 < n)%N by apply: leq_ltn_trans kn; apply: leq_pred.
rewrite !levelE; case: ifP => [_ [before after_]|_ ->]; last exact: lexx.
have [c_in c_r] := classP k1n; have [e_in e_r] := classP kn.
have falls := falls_far (f := fun k => w k / m k) most_falls.
apply: (@le_trans _ _ (w k / m k)).
  apply: height_le (pair_less e_in) _ => j /andP[j1 j2]; apply: falls.
  by rewrite after_ in j1; rewrite j1; apply: leq_trans j2 _; case/andP: (pair_less e_in).
apply: (@le_trans _ _ (w k.-1 / m k.-1)); first exact: most_falls.
apply: height_ge (pair_less c_in) _ => j /andP[j1 j2]; apply: falls.
by rewrite k1n andbT -ltnS prednK // -before.
Qed.
(* Classes give every edge what is above it. *)
Lemma level_part k : k \in edges ->
  \sum_(0 <= i < k) m i * level edges i = \sum_(0 <= i < k) w i.
Proof.
have one e : e \in pairs edges ->
    \sum_(e.1 <= i < e.2) m i * level edges i = \sum_(e.1 <= i < e.2) w i.
  move=> e_in; have less := pair_less e_in.
  rewrite big_nat (eq_bigr (fun i => m i * height masses most e.1 e.2)) => [|i i_in].
    by rewrite -big_nat -mulr_suml heightE mulrC divfK // gt_eqF // part_gt0.
  rewrite levelE (class_unique _ e_in i_in) //; case/andP: less => _ en.
  by case/andP: i_in => _ ie; apply: leq_trans en.
move=> k_in; have chain f z s : sorted ltn (z :: s) -> (forall e, e \in pairs (z :: s) ->
    \sum_(e.1 <= i < e.2) f i = \sum_(e.1 <= i < e.2) w i) -> k \in z :: s ->
    \sum_(z <= i < k) f i = \sum_(z <= i < k) w i.
  elim: s z => [|j s IH] z /=; first by rewrite inE => _ _ /eqP->; rewrite !big_geq.
  move=> /andP[zj sorted_s] same; rewrite inE => /orP[/eqP->|js]; first by rewrite !big_geq.
  have jk : (j <= k)%N.
    move: js; rewrite inE => /orP[/eqP->//|js]; apply: ltnW.
    by apply: (allP (order_path_min ltn_trans sorted_s)).
  rewrite !(@big_cat_nat _ _ _ j z k) ?(ltnW zj) //= (same (z, j)) ?pairs_cons ?mem_head //.
  by congr (_ + _); apply: IH => // e e_in; apply: same; rewrite pairs_cons inE e_in orbT.
move: k_in (chain (fun i => m i * level edges i)) one; case/and3P: edges_ok.
case: edges => [//|z s] sorted_s /eqP/= z0 _ k_in chain' same.
by have := chain' z s sorted_s same k_in; rewrite z0.
Qed.
End Class.

Section Steps.
Let ranks := iota 1 n.-1.
Let mem_ranks k : (k \in ranks) = (0 < k < n)%N.
Proof. by rewrite mem_iota add1n prednK. Qed.
Let needed h := [seq h k.-1 - h k | k <- ranks].
Let edge h k := h k.-1 != h k.
Let edges_for h := 0%N :: rcons [seq k <- ranks | ~~ (h k.-1 - h k <= 0)] n.

Let all_edges h : all_ranks (edges_for h).
Proof.
rewrite /all_ranks /= last_rcons !eqxx andbT /= rcons_path.
set s := [seq _ <- _ | _].
have in_ranks k : k \in s -> (0 < k < n)%N by rewrite mem_filter mem_ranks => /andP[].
rewrite (path_sortedE ltn_trans) sorted_filter ?iota_ltn_sorted //; last exact: ltn_trans.
rewrite andbT; apply/andP; split; first by apply/allP => k /in_ranks/andP[].
by have := mem_last 0%N s; rewrite inE => /orP[/eqP->|/in_ranks/andP[]].
Qed.
Let mem_edges h k : (0 < k < n)%N -> (forall k, (0 < k < n)%N -> h k <= h k.-1) ->
  (k \in edges_for h) = edge h k.
Proof.
move=> k_in falls; case/andP: (k_in) => k0 kn.
rewrite inE mem_rcons inE mem_filter mem_ranks k_in andbT eqn0Ngt k0 /= ltn_eqF //=.
by rewrite -ltNge subr_gt0 lt_def falls // andbT.
Qed.

Lemma served_all h : (forall k, (0 < k < n)%N -> h k <= h k.-1) ->
  (forall k, (0 < k < n)%N -> edge h k -> \sum_(0 <= i < k) m i * h i <= 0) ->
  \sum_(0 <= i < n) m i * h i = 0 -> forall r, (r < n)%N -> h r = 0.
Proof.
move=> falls served total0.
have flat k : (0 < k <= n)%N -> (forall i, (i < k)%N -> h i = h 0%N) \/ h 0%N <= 0.
  elim: k => [//|[|k] IH] kn; first by left; case.
  have [same|] := IH (ltnW kn); last by right.
  have [e|ne] := boolP (edge h k.+1); last first.
    left=> i; rewrite ltnS leq_eqVlt => /orP[/eqP->|/same //].
    by move: ne; rewrite negbK => /eqP/= <-; apply: same.
  right; have := served k.+1 kn e.
  rewrite big_nat (eq_bigr (fun i => m i * h 0%N)) => [|i /andP[_ /same->//]].
  by rewrite -big_nat -mulr_suml pmulr_rle0 // part_gt0 //= ltnW.
have h0 : h 0%N <= 0.
  have [|same|//] := flat n; first by rewrite some /=.
  move: total0; rewrite big_nat (eq_bigr (fun i => m i * h 0%N)) => [|i /andP[_ /same->//]].
  rewrite -big_nat -mulr_suml => /eqP; rewrite mulf_eq0 => /orP[|/eqP->]; last exact: lexx.
  by rewrite gt_eqF // part_gt0 // some /=.
have h_le r : (r < n)%N -> h r <= 0.
  by move=> rn; apply: le_trans h0; apply: (falls_far falls); rewrite rn.
have all0 : \sum_(i < n) - (m i * h i) == 0.
  by rewrite sumrN -(big_mkord xpredT (fun i => m i * h i)) total0 oppr0.
move: all0; rewrite psumr_eq0 => [/allP all0 r rn|i _]; last first.
  by rewrite oppr_ge0 mulr_ge0_le0 ?h_le // ltW // m_gt0.
have := all0 (Ordinal rn); rewrite mem_index_enum => /(_ isT) /=.
by rewrite oppr_eq0 mulf_eq0 gt_eqF ?m_gt0 //= => /eqP.
Qed.

Let regroup (a b t x y : R) : a - b - t * (x - y) = (a - t * x) - (b - t * y).
Proof.
by rewrite mulrBr !opprD !opprK addrACA.
Qed.

Lemma tie_classesP (steps : nat) (left : R) h : 0 <= left ->
  (forall k, (0 < k < n)%N -> h k <= h k.-1) ->
  (forall k, (0 < k < n)%N -> edge h k ->
     \sum_(0 <= i < k) m i * h i <= left * \sum_(0 <= i < k) w i) ->
  \sum_(0 <= i < n) m i * h i = left * (\sum_(0 <= i < n) w i) :> R ->
  left = 0 \/ (count (edge h) ranks < steps)%N ->
  let classes := tie_classes (N := field_numbers R) masses most steps left (needed h) in
  [/\ \sum_(c <- classes) c.1 = left,
      forall c, c \in classes -> 0 <= c.1 /\ all_ranks c.2
    & forall r, (r < n)%N -> \sum_(c <- classes) c.1 * level c.2 r = h r].
Proof.
elim: steps left h => [|steps IH] left h left0 falls served total_h few.
  case: few => // left_0; split; rewrite ?big_nil // => r rn; rewrite big_nil.
  rewrite (served_all falls _ _ rn) //; last by rewrite total_h left_0 mul0r.
  by move=> k k_in /(served k k_in); rewrite left_0 mul0r.
rewrite [tie_classes _ _ _ _ _]/=; case: (lerP left 0) => [le0|left_pos].
  have left_0 : left = 0 by apply/eqP; rewrite eq_le le0.
  split; rewrite ?big_nil // => r rn; rewrite big_nil.
  rewrite (served_all falls _ _ rn) //; last by rewrite total_h left_0 mul0r.
  by move=> k k_in /(served k k_in); rewrite left_0 mul0r.
have -> : 0%N :: rcons [seq e.1 | e <- zip ranks (needed h) & ~~ (e.2 <= 0)] n = edges_for h.
  congr (_ :: rcons _ _); rewrite /needed; elim: ranks => [|k s IHs] //=.
  by case: (_ <= 0) => //=; rewrite IHs.
have edges_ok := all_edges h.
have mem_edges' k : (0 < k < n)%N -> (k \in edges_for h) = edge h k.
  by move=> k_in; apply: mem_edges.
move: (edges_for h) edges_ok mem_edges' => edges edges_ok mem_edges'.
have zipped : zip (needed h) [seq level edges k.-1 - level edges k | k <- ranks] =
    [seq (h k.-1 - h k, level edges k.-1 - level edges k) | k <- ranks].
  by rewrite /needed; elim: ranks => [|k s IHs] //=; rewrite IHs.
rewrite zipped; set pairs_ := [seq _ | k <- ranks].
have [share_le share_all share_in] :=
  foldl_least left [seq e.1 / e.2 | e <- pairs_ & ~~ (e.2 <= 0)].
set share : R := foldl _ _ _ in share_le share_all share_in *.
have share_fits k : (0 < k < n)%N -> share * (level edges k.-1 - level edges k) <= h k.-1 - h k.
  move=> k_in; case: (ltrP 0 (level edges k.-1 - level edges k)) => [pos|le0]; last first.
    have -> : level edges k.-1 - level edges k = 0.
      by apply/eqP; rewrite eq_le le0 subr_ge0 level_falls.
    by rewrite mulr0 subr_ge0 falls.
  rewrite -ler_pdivl_mulr //; apply: share_all; apply/mapP.
  exists (h k.-1 - h k, level edges k.-1 - level edges k) => //.
  by rewrite mem_filter /= -ltNge pos; apply/mapP; exists k; rewrite ?mem_ranks.
have share0 : 0 <= share.
  case: share_in => [->//|/mapP[[x y]]]; rewrite mem_filter /= => /andP[y0 /mapP[k]].
  rewrite mem_ranks => k_in [-> yE] ->; rewrite divr_ge0 ?subr_ge0 ?falls //.
  by move: y0; rewrite -ltNge => /ltW.
pose h' k : R := h k - share * level edges k.
have nextE : [seq e.1 - share * e.2 | e <- pairs_] = needed h'.
  rewrite /pairs_ /needed -map_comp; apply: eq_map => k /=; exact: regroup.
rewrite nextE.
have falls' k : (0 < k < n)%N -> h' k <= h' k.-1.
  by move=> k_in; rewrite -subr_ge0 /h' -regroup subr_ge0 share_fits.
have edge' k : (0 < k < n)%N -> edge h' k -> edge h k.
  move=> k_in; apply: contraNN => /eqP same; rewrite /h'.
  have := class_edge edges_ok k_in; rewrite mem_edges' // /edge same eqxx /= => alike.
  by rewrite -same !levelE // alike.
have parts k : k \in edges -> \sum_(0 <= i < k) m i * h' i =
    (\sum_(0 <= i < k) m i * h i) - share * \sum_(0 <= i < k) w i.
  move=> k_in; rewrite -(level_part edges_ok k_in) mulr_sumr -sumrB.
  by apply: eq_bigr => i _; rewrite /h' mulrBr mulrCA.
have n_in := last_edge edges_ok.
have [] := IH (left - share) h'.
- by rewrite subr_ge0.
- exact: falls'.
- move=> k k_in e; have := edge' k k_in e; rewrite -mem_edges' // => k_edge.
  rewrite parts // mulrBl ler_add2r; apply: served => //; exact: edge'.
- by rewrite parts // total_h mulrBl.
- case: share_in => [->|/mapP[[x y]]]; first by left; rewrite subrr.
  rewrite mem_filter -ltNge /= => /andP[y0 /mapP[k k_in [xE yE]]] share_is; right.
  case: few => [left_0|few]; first by rewrite left_0 ltxx in left_pos.
  rewrite mem_ranks in k_in; apply: leq_trans (_ : _ < count (edge h) ranks)%N _; last first.
    by rewrite -ltnS.
  apply: (count_less (a := k)) => [|||j]; rewrite ?mem_ranks //; last exact: edge'.
    rewrite -mem_edges' //; apply: contraLR y0 => k_out; rewrite -leNgt yE.
    have := class_edge edges_ok k_in; rewrite (negbTE k_out) !levelE // => ->.
    by rewrite subrr.
  rewrite /edge negbK /h' -subr_eq0; move: share_is; rewrite xE yE /= => ->.
  set fall := level edges k.-1 - level edges k; apply/eqP.
  by rewrite -regroup -/fall divfK ?subrr // gt_eqF // /fall -yE.
move=> sum_shares classes_ok reached; split.
- by rewrite big_cons sum_shares addrC subrK.
- by move=> c; rewrite inE => /orP[/eqP->|/classes_ok].
by move=> r rn; rewrite big_cons reached // /h' /= addrC subrK.
Qed.
End Steps.
End TieClasses.

(* -------------------------------------------------------------------------------------- the aim *)
Section Aim.
Variable R : realFieldType.
Implicit Types (i j k : nat) (ranks : seq (R * R)).

(* Some of the first ranks get what is owed, the others one level. *)
Lemma levelledP (sign : R) fits e ranks (worth room : R) :
  (forall x y, fits x y = (sign * x <= sign * y)) -> (forall r, r \in e :: ranks -> 0 < r.2) ->
  room = \sum_(r <- e :: ranks) r.2 ->
  exists j (level : R), let aim := levelled (N := field_numbers R) fits (e :: ranks) worth room in
  [/\ (j <= size ranks)%N /\ size aim = (size ranks).+1,
      forall i, (i <= size ranks)%N -> nth 0 aim i = if (i < j)%N
        then (nth (0, 0) (e :: ranks) i).1 else level * (nth (0, 0) (e :: ranks) i).2,
      \sum_(a <- aim) a = worth,
      forall i, (i < j)%N -> sign * (nth (0, 0) (e :: ranks) i).1
        <= sign * (level * (nth (0, 0) (e :: ranks) i).2)
    & sign * worth <= sign * (level * room)].
Proof.
move=> fitsE; elim: ranks e worth room => [|e' ranks IH] [owed m] worth room m_gt0 roomE.
  have m0 : 0 < m by apply: (m_gt0 (owed, m)); rewrite mem_head.
  have room_m : room = m by rewrite roomE big_seq1.
  exists 0%N, (worth / room); split=> //=.
  - by case=> // _; rewrite mulrAC.
  - by rewrite big_seq1 room_m mulfK // gt_eqF.
  by rewrite room_m divfK // gt_eqF.
have m0 : 0 < m by apply: (m_gt0 (owed, m)); rewrite mem_head.
have rest0 r : r \in e' :: ranks -> 0 < r.2 by move=> r_in; apply: m_gt0; rewrite inE r_in orbT.
have roomE' : room - m = \sum_(r <- e' :: ranks) r.2 by rewrite roomE big_cons addrAC subrr add0r.
have room'0 : 0 < room - m.
  rewrite roomE' big_cons ltr_spaddl ?rest0 ?mem_head // big_seq sumr_ge0 // => r r_in.
  by apply: ltW; apply: rest0; rewrite inE r_in orbT.
have room0 : 0 < room by rewrite -(subrK m room) addr_gt0.
have -> : levelled (N := field_numbers R) fits [:: (owed, m), e' & ranks] worth room =
    if fits (owed * room) (worth * m)
    then owed :: levelled (N := field_numbers R) fits (e' :: ranks) (worth - owed) (room - m)
    else [seq worth * r.2 / room | r <- [:: (owed, m), e' & ranks]] by [].
have [j [level [[j_in size_aim] aimE total_aim owed_le grown]]] :=
  IH e' (worth - owed) (room - m) rest0 roomE'.
move: (levelled _ _ _ _) size_aim aimE total_aim => rest size_aim aimE total_aim.
case: ifP => [fit|_]; last first.
  exists 0%N, (worth / room); split=> //.
  - by rewrite size_map.
  - by move=> i i_in; rewrite (nth_map (0, 0)) // [RHS]mulrAC.
  - by rewrite big_map -mulr_suml -mulr_sumr -roomE mulfK // gt_eqF.
  by rewrite divfK // gt_eqF.
have owed_fits : sign * owed <= sign * (level * m).
  rewrite -(ler_pmul2r room'0); apply: (@le_trans _ _ (sign * (worth - owed) * m)).
    rewrite fitsE in fit; rewrite mulrBr [sign * (worth - _)]mulrBr mulrBl ler_sub //.
    by rewrite -!mulrA.
  apply: le_trans (ler_wpmul2r (ltW m0) grown) _.
  by rewrite -!mulrA [_ * m]mulrC lexx.
exists j.+1, level; split=> //=.
- by rewrite size_aim.
- by case=> [|i] i_in //=; rewrite aimE.
- by rewrite big_cons total_aim addrC subrK.
- by case=> [|i] i_in //=; apply: owed_le.
have -> : worth = owed + (worth - owed) by rewrite addrC subrK.
have -> : level * room = level * m + level * (room - m) by rewrite mulrBr addrC subrK.
by rewrite (mulrDr sign owed) (mulrDr sign (level * m)) ler_add.
Qed.

Section Aimed.
Variables owed masses most : seq R.
Local Notation n := (size masses).
Hypotheses (size_owed : size owed = n) (size_most : size most = n).
Let o i : R := nth 0 owed i.
Let m i : R := nth 0 masses i.
Let w i : R := nth 0 most i.
Hypothesis m_gt0 : forall k, (k < n)%N -> 0 < m k.
Hypothesis most_falls : forall k, (0 < k < n)%N -> w k / m k <= w k.-1 / m k.-1.
Hypothesis owed_falls : forall k, (0 < k < n)%N -> o k / m k <= o k.-1 / m k.-1.
Local Notation aimed := (aimed (N := field_numbers R) owed masses most).

Let under i j (f : nat -> R) : R := \sum_(i <= k < j) f k.
Let under_cat i j k (f : nat -> R) : (i <= j <= k)%N -> under i j f + under j k f = under i k f.
Proof. by case/andP=> ij jk; rewrite /under -big_cat_nat. Qed.
Let m_under i j : (i < j <= n)%N -> 0 < under i j m.
Proof. by move=> ij; apply: part_gt0. Qed.
Let m_under0 i j : (i <= j <= n)%N -> 0 <= under i j m.
Proof.
case/andP; rewrite leq_eqVlt => /orP[/eqP->|ij jn]; first by rewrite /under big_geq.
by rewrite ltW // m_under // ij.
Qed.

(* The worth of the first ranks, for their mass, is above that of the ranks after them. *)
Let worth_falls i j k : (i <= j <= k)%N -> (k <= n)%N ->
  under j k w * under i j m <= under i j w * under j k m.
Proof.
case/andP=> ij jk kn; move: ij; rewrite leq_eqVlt => /orP[/eqP->|ij].
  by rewrite /under ![\sum_(j <= _ < j) _]big_geq // mulr0 mul0r.
move: jk; rewrite leq_eqVlt => /orP[/eqP->|jk].
  by rewrite /under ![\sum_(k <= _ < k) _]big_geq // mulr0 mul0r.
have jn := leq_trans jk kn.
have falls := falls_far most_falls; pose x := w j / m j.
have low : x * under i j m <= under i j w.
  rewrite -ler_pdivl_mulr ?m_under ?ij ?(ltnW jn) //.
  have := @height_ge _ masses m_gt0 most i j x; rewrite ij (ltnW jn) heightE; apply=> //.
  by move=> l /andP[il lj]; apply: falls; rewrite (ltnW lj).
have high : under j k w <= x * under j k m.
  rewrite -ler_pdivr_mulr ?m_under ?jk //.
  have := @height_le _ masses m_gt0 most j k x; rewrite jk kn heightE; apply=> //.
  by move=> l /andP[jl lk]; apply: falls; rewrite jl (leq_trans lk).
apply: le_trans (ler_wpmul2r _ high) _; first by rewrite m_under0 // (ltnW ij) (ltnW jn).
by rewrite mulrAC ler_wpmul2r // m_under0 // (ltnW jk).
Qed.

(* The least of a list. *)
Lemma has_least (s : seq R) : s != [::] -> has (fun x => all (fun y => x <= y) s) s.
Proof.
case: s => [//|x s] _; elim: s x => [|y s IH] x; first by rewrite /= lexx.
case/hasP: (IH y) => z z_in /allP least; apply/hasP; case: (lerP x z) => xz.
  exists x; rewrite ?mem_head //; apply/allP => u.
  rewrite inE => /orP[/eqP->|u_in]; first exact: lexx.
  exact: le_trans xz (least u u_in).
exists z; rewrite ?(in_cons x) ?z_in ?orbT //; apply/allP => u.
rewrite inE => /orP[/eqP->|/least//].
exact: ltW.
Qed.
Let sum_take (s : seq R) k : \sum_(x <- take k s) x = under 0 k (nth 0 s).
Proof.
elim: k s => [|k IH] [|x s]; rewrite ?take0 ?big_nil /under; try by rewrite big_geq.
  by rewrite big1 // => i _; rewrite nth_nil.
by rewrite /= big_cons big_nat_recl //= IH.
Qed.
Let sum_drop (s : seq R) k : (k <= size s)%N ->
  \sum_(x <- drop k s) x = under k (size s) (nth 0 s).
Proof.
move=> ks; apply: (@addrI _ (\sum_(x <- take k s) x)); rewrite -big_cat cat_take_drop sum_take.
by rewrite under_cat // -sum_take take_size.
Qed.
Let sum_rev A (f : A -> R) (s : seq A) : \sum_(x <- rev s) f x = \sum_(x <- s) f x.
Proof. by elim: s => [//|x s IH]; rewrite rev_cons -cats1 big_cat big_seq1 IH big_cons addrC. Qed.
Let ranks := zip owed masses.
Let size_ranks : size ranks = n. Proof. by rewrite size_zip size_owed minnn. Qed.
Let nth_ranks i : nth (0, 0) ranks i = (o i, m i).
Proof. by rewrite nth_zip // size_owed. Qed.
Let snd_ranks : map snd ranks = masses.
Proof. by rewrite /ranks -[map snd _]/(unzip2 _) unzip2_zip // size_owed. Qed.
Let ranks_gt0 e : e \in ranks -> 0 < e.2.
Proof.
move=> /(nthP (0, 0))[i]; rewrite size_ranks => i_in <-; rewrite nth_ranks; exact: m_gt0.
Qed.

Let inside k : (k <= n)%N -> exists i0 (level : R), let aim := rev (levelled
    (@at_most (field_numbers R)) (rev (take k ranks)) (sum (take k most)) (sum (take k masses))) in
  [/\ (i0 <= k)%N /\ (0 < k -> 0 < i0)%N, size aim = k,
      forall i, (i < k)%N -> nth 0 aim i = if (i < i0)%N then level * m i else o i,
      \sum_(a <- aim) a = under 0 k w
    & forall i, (i0 <= i < k)%N -> o i <= level * m i].
Proof.
case: k => [|k] kn.
  by exists 0%N, 0; rewrite take0 /=; split=> //; rewrite big_nil /under big_geq.
have size_take_k : size (take k.+1 ranks) = k.+1 by rewrite size_takel // size_ranks.
case E: (rev (take k.+1 ranks)) => [|e rs].
  by have := size_rev (take k.+1 ranks); rewrite E size_take_k.
have size_rs : size rs = k by move: (size_rev (take k.+1 ranks)); rewrite E size_take_k => -[].
have nthE i : (i <= k)%N -> nth (0, 0) (e :: rs) i = (o (k - i)%N, m (k - i)%N).
  by move=> ik; rewrite -E nth_rev ?size_take_k // subSS nth_take ?ltnS ?leq_subr // nth_ranks.
have rs_gt0 r : r \in e :: rs -> 0 < r.2.
  by rewrite -E mem_rev => /mem_take; apply: ranks_gt0.
have room : sum (N := field_numbers R) (take k.+1 masses) = \sum_(r <- e :: rs) r.2.
  by rewrite sumE -E sum_rev -[in LHS]snd_ranks -map_take big_map.
have [|j [level [[jk size_aim] aimE total_aim owed_le _]]] :=
  @levelledP 1 (@at_most (field_numbers R)) e rs (sum (N := field_numbers R) (take k.+1 most)) _
  _ rs_gt0 room; first by move=> x y; rewrite !mul1r.
move: (levelled _ _ _ _) size_aim aimE total_aim => aim size_aim aimE total_aim.
rewrite size_rs in jk size_aim aimE.
have beforeE i : (i <= k)%N -> (i < k.+1 - j)%N = ~~ (k - i < j)%N.
  by move=> ik; rewrite ltn_subRL ltnS -leqNgt leq_subRL // addnC.
exists (k.+1 - j)%N, level; split; rewrite ?size_rev ?sum_rev //.
- by rewrite leq_subr subn_gt0 ltnS.
- move=> i; rewrite ltnS => ik; rewrite nth_rev ?size_aim ?ltnS // subSS aimE ?leq_subr //.
  by rewrite beforeE // nthE ?leq_subr // subKn //; case: ltnP.
- by rewrite total_aim sumE sum_take.
move=> i /andP[]; rewrite ltnS leqNgt => + ik; rewrite beforeE // negbK => ij.
by have := owed_le _ ij; rewrite nthE ?leq_subr // subKn // !mul1r.
Qed.
Let beyond k : (k <= n)%N -> exists j0 (level : R), let aim := levelled
    (fun a b => @at_most (field_numbers R) b a) (drop k ranks) (sum (drop k most))
    (sum (drop k masses)) in
  [/\ [/\ (k <= j0)%N, (j0 <= n)%N & (k < n -> j0 < n)%N], size aim = (n - k)%N,
      forall i, (k <= i < n)%N -> nth 0 aim (i - k) = if (i < j0)%N then o i else level * m i,
      \sum_(a <- aim) a = under k n w
    & forall i, (k <= i < j0)%N -> level * m i <= o i].
Proof.
rewrite leq_eqVlt => /orP[/eqP->|kn].
  exists n, 0; rewrite -[n in drop n]size_ranks drop_size subnn /=; split=> //.
  - by move=> i /andP[ni]; rewrite ltnNge ni.
  - by rewrite big_nil /under big_geq.
  by move=> i /andP[ni]; rewrite ltnNge ni.
have size_drop_k : size (drop k ranks) = (n - k)%N by rewrite size_drop size_ranks.
case E: (drop k ranks) => [|e rs].
  by move: size_drop_k; rewrite E => /esym/eqP; rewrite subn_eq0 leqNgt kn.
have size_rs : (size rs).+1 = (n - k)%N by rewrite -size_drop_k E.
have nthE i : nth (0, 0) (e :: rs) i = (o (k + i)%N, m (k + i)%N).
  by rewrite -E nth_drop nth_ranks.
have rs_gt0 r : r \in e :: rs -> 0 < r.2.
  by rewrite -E => /mem_drop; apply: ranks_gt0.
have room : sum (N := field_numbers R) (drop k masses) = \sum_(r <- e :: rs) r.2.
  by rewrite sumE -E -[in LHS]snd_ranks -map_drop big_map.
have [|j [level [[jk size_aim] aimE total_aim owed_le _]]] :=
  @levelledP (-1) (fun a b => @at_most (field_numbers R) b a) e rs
  (sum (N := field_numbers R) (drop k most)) _ _ rs_gt0 room.
  by move=> x y; rewrite !mulN1r ler_opp2.
move: (levelled _ _ _ _) size_aim aimE total_aim => aim size_aim aimE total_aim.
have small i : (k <= i < n)%N -> (i - k <= size rs)%N.
  by case/andP=> ki i_n; rewrite -ltnS size_rs ltn_sub2r.
exists (k + j)%N, level; split=> //.
- have lt : (k + j < n)%N by rewrite -ltn_subRL -size_rs ltnS.
  by rewrite leq_addr ltnW.
- by rewrite size_aim.
- move=> i i_in; rewrite aimE ?small // nthE; case/andP: i_in => ki _.
  by rewrite subnKC // ltn_subLR.
- by rewrite total_aim sumE sum_drop ?size_most // ltnW.
move=> i /andP[ki ij]; have := owed_le (i - k)%N; rewrite nthE subnKC //= !mulN1r ler_opp2.
by apply; rewrite ltn_subLR.
Qed.

(* The aim keeps within reach, and is flat enough for tie classes. *)
Lemma aim_in_reach : [/\ size aimed = n,
    forall k, (0 < k < n)%N -> nth 0 aimed k / m k <= nth 0 aimed k.-1 / m k.-1,
    forall k, (k <= n)%N -> under 0 k (nth 0 aimed) <= under 0 k w
  & under 0 n (nth 0 aimed) = under 0 n w].
Proof.
rewrite /aimed size_owed; set surplus := [seq _ | k <- _]; set least_ := fun s => all _ surplus.
have some : has least_ surplus by apply: has_least.
pose k := find least_ surplus; rewrite -/k.
have size_surplus : size surplus = n.+1 by rewrite size_map size_iota.
have kn : (k <= n)%N by rewrite -ltnS -size_surplus -has_find.
have surplusE i : (i <= n)%N -> nth 0 surplus i = under 0 i w - under 0 i o.
  move=> i_n; rewrite (nth_map 0%N) ?size_iota // nth_iota // add0n !sumE !sum_take.
  by [].
have least_k i : (i <= n)%N -> under 0 k w - under 0 k o <= under 0 i w - under 0 i o.
  move=> i_n; rewrite -!surplusE //; have /allP := nth_find 0 some; apply.
  by rewrite mem_nth // size_surplus.
have [i0 [level1 [[i0k i0_gt0] size1 aim1 total1 owed1]]] := inside kn.
have [j0 [level2 [[kj0 j0n j0_lt] size2 aim2 total2 owed2]]] := beyond kn.
move: (rev _) size1 aim1 total1 => part1 size1 aim1 total1.
move: (levelled _ _ _ _) size2 aim2 total2 => part2 size2 aim2 total2.
set aim := part1 ++ part2; pose a i : R := nth 0 aim i.
have aimE i : (i < n)%N ->
    a i = if (i < i0)%N then level1 * m i else if (i < j0)%N then o i else level2 * m i.
  move=> i_n; rewrite /a nth_cat size1; case: (ltnP i k) => [ik|ki].
    by rewrite aim1 // (leq_trans ik kj0).
  by rewrite aim2 ?ki // [(i < i0)%N]ltnNge (leq_trans i0k ki).
have total_k : under 0 k a = under 0 k w by rewrite -sum_take take_size_cat.
have total_n : under k n a = under k n w.
  have size_aim : size aim = n by rewrite size_cat size1 size2 subnKC.
  by rewrite -[in LHS]size_aim -sum_drop ?size_aim // drop_size_cat.
have size_aim : size aim = n by rewrite size_cat size1 size2 subnKC.
have eq_under i j (f g : nat -> R) : (forall l, (i <= l < j)%N -> f l = g l) ->
    under i j f = under i j g.
  by move=> same; rewrite /under big_nat [RHS]big_nat; apply: eq_bigr => l /same.
have scaled i j (x : R) : under i j (fun l => x * m l) = x * under i j m.
  by rewrite /under mulr_sumr.
have one i (f : nat -> R) : under 0 i.+1 f = under 0 i f + f i by rewrite /under big_nat_recr.
have total : under 0 n a = under 0 n w by rewrite -!(@under_cat 0 k n) ?kn // total_k total_n.
have middle i : (i0 <= i <= j0)%N -> under 0 i a = under 0 i o + (under 0 k w - under 0 k o).
  case/andP=> i0i ij0; have i_n := leq_trans ij0 j0n; have [ik|ki] := leqP i k.
    have same : under i k a = under i k o.
      apply: eq_under => l /andP[il lk].
      by rewrite aimE ?(leq_trans lk kn) // ltnNge (leq_trans i0i il) /= (leq_trans lk kj0).
    rewrite -total_k -(@under_cat 0 i k) ?ik // -(@under_cat 0 i k o) ?ik // same.
    by rewrite opprD addrACA subrr addr0 addrC subrK.
  have same : under k i a = under k i o.
    apply: eq_under => l /andP[kl li].
    by rewrite aimE ?(leq_trans li i_n) // ltnNge (leq_trans i0k kl) /= (leq_trans li ij0).
  rewrite -(@under_cat 0 k i) ?(ltnW ki) // total_k same -(@under_cat 0 k i o) ?(ltnW ki) //.
  by rewrite [RHS]addrC addrA subrK.
have reach_middle i : (i0 <= i <= j0)%N -> under 0 i a <= under 0 i w.
  move=> i_in; rewrite middle // addrC -ler_subr_addr; apply: least_k.
  by case/andP: i_in => _ /leq_trans; apply.
split=> //.
- move=> r r_in; case/andP: (r_in) => r0 rn; have r1n : (r.-1 < n)%N by rewrite prednK // ltnW.
  have flat x i : (i < n)%N -> x * m i / m i = x by move=> i_n; rewrite mulfK // gt_eqF // m_gt0.
  have scaled_le x y i : (i < n)%N -> (y / m i <= x) = (y <= x * m i).
    by move=> i_n; rewrite ler_pdivr_mulr // m_gt0.
  have scaled_ge x y i : (i < n)%N -> (x <= y / m i) = (x * m i <= y).
    by move=> i_n; rewrite ler_pdivl_mulr // m_gt0.
  rewrite -!/(a _); have [rk|kr|r_k] := ltngtP r k.
  + have rj : (r < j0)%N by apply: leq_trans kj0.
    rewrite !aimE // rj (leq_ltn_trans (leq_pred r) rj).
    have [ri|ir] := ltnP r i0; first by rewrite (leq_ltn_trans (leq_pred r) ri) !flat.
    have [r1i|ir1] := ltnP r.-1 i0; last exact: owed_falls.
    by rewrite flat // scaled_le // owed1 // ir.
  + have ri : (r < i0)%N = false by rewrite ltnNge (leq_trans i0k (ltnW kr)).
    have kr1 : (k <= r.-1)%N by rewrite -ltnS prednK.
    have r1i : (r.-1 < i0)%N = false by rewrite ltnNge (leq_trans i0k kr1).
    rewrite !aimE // ri r1i; have [rj|jr] := ltnP r j0.
      by rewrite (leq_ltn_trans (leq_pred r) rj) owed_falls.
    have [r1j|jr1] := ltnP r.-1 j0; last by rewrite !flat.
    by rewrite flat // scaled_ge // owed2 // kr1.
  rewrite r_k in r_in r0 rn r1n *; apply: (@le_trans _ _ (w k / m k)).
    rewrite aimE // ltnNge i0k /=; have [kj|jk] := ltnP k j0.
      rewrite ler_wpmul2r ?invr_ge0 ?(ltW (m_gt0 rn)) //.
      have := least_k k.+1 rn; rewrite !one opprD addrACA ler_addl subr_ge0.
      by [].
    have j0_k : j0 = k by apply/eqP; rewrite eqn_leq jk kj0.
    have -> : level2 * m k / m k = height (N := field_numbers R) masses most k n.
      rewrite flat // heightE -[\sum_(k <= _ < n) nth 0 most _]total_n.
      rewrite (eq_under k n a (fun l => level2 * m l)) => [|l /andP[kl ln]]; last first.
        by rewrite aimE // ltnNge (leq_trans i0k kl) j0_k ltnNge kl.
      by rewrite scaled mulfK // gt_eqF // m_under // rn /=.
    have := @height_le _ masses m_gt0 most k n (w k / m k); rewrite rn leqnn; apply=> //.
    by move=> l /andP[kl ln]; apply: (falls_far most_falls); rewrite kl.
  apply: le_trans (most_falls r_in) _; rewrite aimE //; have [ki|ik] := ltnP k.-1 i0.
    have i0_k : i0 = k by apply/eqP; rewrite eqn_leq i0k -(prednK r0).
    have -> : level1 * m k.-1 / m k.-1 = height (N := field_numbers R) masses most 0 k.
      rewrite flat // heightE -[\sum_(0 <= _ < k) nth 0 most _]total_k.
      rewrite (eq_under 0%N k a (fun l => level1 * m l)) => [|l /andP[_ lk]]; last first.
        by rewrite aimE ?(leq_trans lk kn) // i0_k lk.
      by rewrite scaled mulfK // gt_eqF // m_under // r0 kn.
    have := @height_ge _ masses m_gt0 most 0 k (w k.-1 / m k.-1); rewrite r0 kn; apply=> //.
    move=> l /andP[_ lk]; apply: (falls_far most_falls).
    by apply/andP; split; rewrite // -ltnS prednK.
  have -> : (k.-1 < j0)%N by apply: leq_trans kj0; rewrite prednK.
  rewrite ler_wpmul2r ?invr_ge0 ?(ltW (m_gt0 r1n)) //.
  have := least_k k.-1 (ltnW r1n); rewrite -{1 2}(prednK r0) !one opprD addrACA ger_addl subr_le0.
  by [].
- move=> i i_n; have [ii|ii] := ltnP i i0.
    have i0n := leq_trans i0k kn.
    have M0 : 0 < under 0 i0 m by rewrite m_under // i0n (leq_ltn_trans _ ii).
    have first j : (j <= i0)%N -> under 0 j a = level1 * under 0 j m.
      move=> ji; rewrite -scaled; apply: eq_under => l /andP[_ lj].
      by rewrite aimE ?(leq_trans (leq_trans lj ji) i0n) // (leq_trans lj ji).
    rewrite first ?(ltnW ii) // -(ler_pmul2r M0).
    apply: (@le_trans _ _ (under 0 i0 w * under 0 i m)).
      rewrite mulrAC ler_wpmul2r ?m_under0 //= -first // reach_middle // leqnn.
      exact: leq_trans i0k kj0.
    rewrite -(@under_cat 0 i i0 w) ?(ltnW ii) // -(@under_cat 0 i i0 m) ?(ltnW ii) //.
    by rewrite mulrDl mulrDr ler_add2l worth_falls // ?(ltnW ii).
  have [ij|ji] := leqP i j0; first by rewrite reach_middle // ii.
  have M0 : 0 < under j0 n m by rewrite m_under // leqnn (leq_trans ji i_n).
  have last_ j : (j0 <= j)%N -> under j n a = level2 * under j n m.
    move=> jj; rewrite -scaled; apply: eq_under => l /andP[jl ln].
    rewrite aimE // !ltnNge (leq_trans jj jl) (leq_trans _ (leq_trans jj jl)) //.
    exact: leq_trans i0k kj0.
  have after_ j : (j <= n)%N -> (under 0 j a <= under 0 j w) = (under j n w <= under j n a).
    move=> jn; rewrite -[under 0 j a](addrK (under j n a)) -[under 0 j w](addrK (under j n w)).
    by rewrite !under_cat // total ler_add2l ler_opp2.
  rewrite after_ // last_ ?(ltnW ji) // -(ler_pmul2r M0).
  apply: (@le_trans _ _ (under j0 n w * under i n m)); last first.
    rewrite [X in _ <= X]mulrAC ler_wpmul2r ?m_under0 ?i_n ?leqnn //.
    by rewrite -last_ // -after_ // reach_middle // leqnn (leq_trans i0k).
  rewrite -(@under_cat j0 i n w) ?i_n ?(ltnW ji) // -(@under_cat j0 i n m) ?i_n ?(ltnW ji) //.
  by rewrite mulrDl mulrDr ler_add2r worth_falls // ?i_n ?(ltnW ji).
Qed.
End Aimed.
End Aim.

(* ----------------------------------------------------------------- how the reference shares out *)
Section Split.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation scores := (scores (field_numbers R)).
Implicit Types (s hand : scores) (G : R -> R -> R) (a b : T) (i j r : nat).

(* What goes to a rank keeps its order. *)
Definition scaled_by (x : R) hand : scores :=
  [seq Cell (N := field_numbers R) (low c) (high c) ((mass c : R) * x) | c <- hand].
Lemma measured_scaled G x hand : measured G (scaled_by x hand) = x * measured G hand.
Proof.
rewrite /measured big_map mulr_sumr; apply: eq_bigr => c _ /=.
by rewrite mulrAC -mulrA mulrC -mulrA mulrC mulrA.
Qed.
Lemma ordered_scaled u x hand : 0 < x -> ordered u hand -> ordered u (scaled_by x hand).
Proof.
move=> x0; elim: hand u => [|c s IH] u //= /and3P[ul /and4P[lo0 lohi hi1 m0] ok].
by rewrite ul IH // /proper /= lo0 lohi hi1 mulr_gt0.
Qed.
Lemma upper_scaled u x hand : upper u (scaled_by x hand) = upper u hand.
Proof. by rewrite /upper /scaled_by -map_comp. Qed.
Lemma measured_flatten G (hands : seq scores) :
  measured G (flatten hands) = \sum_(hand <- hands) measured G hand.
Proof.
elim: hands => [|hand hands IH]; first by rewrite /measured !big_nil.
by rewrite /= measured_cat big_cons IH.
Qed.
Lemma ordered_weighted u (weights : seq R) (hands : seq scores) : ordered u (flatten hands) ->
  ordered u (flatten [seq scaled_by e.1 e.2 | e <- zip weights hands & ~~ (e.1 <= 0)]).
Proof.
elim: hands u weights => [|hand hands IH] u [|x weights] //=.
rewrite ordered_cat => /andP[hand_ok ok]; have {}IH := IH _ weights ok.
case: (lerP x 0) => [_|x0] /=; first exact: ordered_lower (ordered_upper hand_ok) IH.
by rewrite ordered_cat ordered_scaled // upper_scaled.
Qed.
Lemma measured_weighted G (weights : seq R) (hands : seq scores) :
  all (fun x => 0 <= x) weights -> size weights = size hands ->
  measured G (flatten [seq scaled_by e.1 e.2 | e <- zip weights hands & ~~ (e.1 <= 0)])
  = \sum_(i < size hands) nth 0 weights i * measured G (nth [::] hands i).
Proof.
elim: hands weights => [|hand hands IH] [|x weights] //=.
  by rewrite big_ord0 /measured big_nil.
move=> /andP[x0 ok] [sizes]; rewrite big_ord_recl /= -IH //.
case: (lerP x 0) => [x_le0|_] /=; last by rewrite measured_cat measured_scaled.
have -> : x = 0 by apply/eqP; rewrite eq_le x_le0 x0.
by rewrite mul0r add0r.
Qed.

Variables (count : nat) (s : scores) (owed : R) (p q : T -> R).
Hypothesis owed0 : 0 <= owed.
Hypothesis q_row : is_row q.
Let q0 a : 0 <= q a. Proof. by case: q_row. Qed.
Let q1 : \sum_a q a = 1. Proof. by case: q_row. Qed.
Local Notation here := (@split (field_numbers R) T vocabulary count s owed p q).
Local Notation ranked := (tokens here).

Lemma mem_tokens a : (a \in ranked) = (q a != 0).
Proof.
rewrite mem_sort mem_filter (perm_mem complete) mem_enum inE andbT -ltNge.
by rewrite lt_def q0 andbT.
Qed.
Lemma uniq_tokens : uniq ranked.
Proof. by rewrite sort_uniq filter_uniq // (perm_uniq complete) enum_uniq. Qed.
Lemma some_tokens : (0 < size ranked)%N.
Proof.
rewrite lt0n size_eq0; apply/eqP => none; have zero : \sum_a q a = 0.
  by apply: big1 => a _; apply/eqP; have := mem_tokens a; rewrite none => /esym/negbFE.
by have := oner_neq0 R; rewrite -q1 zero eqxx.
Qed.
Lemma sum_tokens (f : T -> R) : (forall a, q a = 0 -> f a = 0) ->
  \sum_(a <- ranked) f a = \sum_a f a.
Proof.
move=> zero; rewrite big_uniq ?uniq_tokens //= big_mkcond; apply: eq_bigr => a _.
by rewrite mem_tokens; case: eqP => [/zero->|].
Qed.
Lemma after_tokenless a : q a = 0 -> after here a = [::] /\ law_of here a = 0.
Proof. by move=> qa; rewrite /after /law_of mem_tokens qa eqxx. Qed.

(* Where nothing is left. *)
Lemma levelled_ge0 fits (ranks : seq (R * R)) (worth room : R) :
  all (fun e : R * R => (0 <= e.1) && (e.2 == 0)) ranks ->
  all (fun x => 0 <= x) (levelled (N := field_numbers R) fits ranks worth room).
Proof.
elim: ranks worth room => [|[o m] ranks IH] worth room //= /andP[/andP[/= o_ge0 /eqP->] ok].
case: ifP => _ /=; first by rewrite o_ge0 IH.
rewrite mulr0 mul0r lexx /= all_map; apply: sub_all ok => e /= /andP[_ /eqP->].
by rewrite mulr0 mul0r.
Qed.

Hypothesis s_ordered : ordered 0 s.
Hypothesis s_some : 0 < (reach s : R).
Let n := size ranked.
Let ms : seq R := masses here.
Let hand i : scores := nth [::] (hands here) i.
Let most : seq R := [seq value count h | h <- hands here].
Let m i : R := nth 0 ms i.

Let some : T. Proof. by case: ranked some_tokens => [|a]. Qed.
Let size_ms : size ms = n. Proof. by rewrite /ms /= size_map. Qed.
Let msE i : (i < n)%N -> m i = (reach s : R) * q (nth some ranked i).
Proof. by move=> i_n; rewrite /m /ms /= (nth_map some). Qed.
Let ms_gt0 i : (i < size ms)%N -> 0 < m i.
Proof.
rewrite size_ms => i_n; rewrite msE // mulr_gt0 // lt_def q0 andbT.
by rewrite -mem_tokens mem_nth.
Qed.
Let total_ms : \sum_(x <- ms) x = reach s.
Proof. by rewrite /ms /= big_map sum_tokens -?mulr_sumr ?q1 ?mulr1 // => a ->; rewrite mulr0. Qed.
Let sorted_s : sort (fun c d : cell (field_numbers R) => (low c : R) <= low d) s = s.
Proof.
apply: sorted_sort => [x y z|]; first exact: le_trans.
elim: s 0 s_ordered => [|c [|d t] IH] u //= /and3P[_ c_ok ok].
have /and3P[cd d_ok _] := ok; case/and4P: c_ok => _ lohi _ _.
by rewrite (le_trans (ltW lohi) cd) /=; exact: (IH (high c) ok).
Qed.
Let dealt_hands : [/\ ordered 0 (flatten (hands here)), [seq reach h : R | h <- hands here] = ms
  & forall G, fair G -> measured G (flatten (hands here)) = measured G s].
Proof.
have -> : hands here = dealt (N := field_numbers R) s ms by rewrite -[in RHS]sorted_s.
apply: dealtP s_ordered _ total_ms; apply/allP => x x_in; apply: ltW.
by have := ms_gt0 (i := index x ms); rewrite index_mem => /(_ x_in); rewrite /m nth_index.
Qed.
Let size_hands : size (hands here) = n.
Proof. by rewrite -size_ms; case: dealt_hands => _ <- _; rewrite size_map. Qed.
Let reach_hand i : (i < n)%N -> reach (hand i) = m i.
Proof.
by move=> i_n; rewrite /m; case: dealt_hands => _ <- _; rewrite (nth_map [::]) // size_hands.
Qed.
Let nth_most i : (i < n)%N -> nth 0 most i = value count (hand i).
Proof. by move=> i_n; rewrite (nth_map [::]) // size_hands. Qed.
Let most_falls i : (0 < i < size ms)%N -> nth 0 most i / m i <= nth 0 most i.-1 / m i.-1.
Proof.
case: i => [//|i] /=; rewrite size_ms => i_n; have i_n' := ltnW i_n.
have [flat_ok _ _] := dealt_hands; rewrite ler_pdivr_mulr ?ms_gt0 ?size_ms //.
rewrite mulrAC ler_pdivl_mulr ?ms_gt0 ?size_ms // !nth_most // -!reach_hand //.
by apply: hands_fall flat_ok ler01 _; rewrite size_hands.
Qed.
Let wanted : seq R := [seq owed * p a | a <- ranked].
Let owed_falls i : (0 < i < size ms)%N -> nth 0 wanted i / m i <= nth 0 wanted i.-1 / m i.-1.
Proof.
case: i => [//|i] /=; rewrite size_ms => i_n; have i_n' := ltnW i_n.
have owedE j : (j < n)%N -> nth 0 wanted j / m j =
    owed / reach s * (p (nth some ranked j) / q (nth some ranked j)).
  by move=> j_n; rewrite (nth_map some) // msE // invfM mulrACA.
rewrite !owedE //; apply: ler_wpmul2l; first by rewrite divr_ge0 // ltW.
have sorted_ranked : sorted (fun a b => p b / q b <= p a / q a) ranked.
  by apply: sort_sorted => a b; apply: le_total.
by have /(sortedP some) := sorted_ranked; apply.
Qed.
Let some_ms : (0 < size ms)%N. Proof. by rewrite size_ms some_tokens. Qed.

Let shares := classes here.
Let sharesP : [/\ \sum_(c <- shares) c.1 = 1,
    forall c, c \in shares -> 0 <= (c.1 : R) /\ all_ranks ms c.2
  & forall r, (r < n)%N ->
      (\sum_(c <- shares) c.1 * level ms most c.2 r) * m r = nth 0 (aim here) r].
Proof.
have size_most : size most = size ms by rewrite size_map size_hands size_ms.
have size_owed : size wanted = size ms by rewrite size_map size_ms.
have [size_aim aim_falls aim_reach aim_total] :=
  aim_in_reach size_owed size_most ms_gt0 most_falls owed_falls.
pose h i : R := nth 0 (aim here) i / m i.
have mh i : (i < n)%N -> m i * h i = nth 0 (aim here) i.
  by move=> i_n; rewrite /h mulrC divfK // gt_eqF // ms_gt0 // size_ms.
have sums k : (k <= n)%N -> \sum_(0 <= i < k) m i * h i = \sum_(0 <= i < k) nth 0 (aim here) i.
  move=> kn; rewrite big_nat [RHS]big_nat; apply: eq_bigr => i /andP[_ ik].
  by rewrite mh // (leq_trans ik).
have -> : shares = tie_classes ms most (size ms) 1 [seq h k.-1 - h k | k <- iota 1 (size ms).-1].
  rewrite /shares /= /classes_of; congr tie_classes; apply/eq_in_map => k.
  rewrite mem_iota => /andP[k0 _]; have one i : height ms (aim here) i i.+1 = h i.
    by rewrite heightE !big_nat1.
  transitivity (height ms (aim here) k.-1 k - height ms (aim here) k k.+1); first by [].
  by have before := one k.-1; rewrite prednK // in before; rewrite one before.
have [] := @tie_classesP R ms most some_ms ms_gt0 most_falls (size ms) 1 h ler01 aim_falls.
- move=> k /andP[_ kn] _; rewrite mul1r sums -?size_ms ?(ltnW kn) //.
  by rewrite aim_reach // ltnW.
- by rewrite mul1r size_ms sums // -size_ms aim_total.
- by right; apply: leq_ltn_trans (count_size _ _) _; rewrite size_iota prednK.
move=> total1 ok reached; split=> // r rn; rewrite reached ?size_ms // mulrC mh //.
Qed.

(* The hands are shared out, each in full, and every rank has its mass and what it aims at. *)
Let wt r i : R := weight ms shares r i.
Let cls (c : R * seq nat) r := class c.2 r.
Let in_cls c r i := ((cls c r).1 <= i < (cls c r).2)%N.
Let mass_of c r : R := \sum_((cls c r).1 <= i < (cls c r).2) m i.
Let wtE r i : wt r i = \sum_(c <- shares) if in_cls c r i then c.1 * m r / mass_of c r else 0.
Proof.
rewrite /wt /weight sumE big_map; apply: eq_bigr => c _; rewrite /in_cls /mass_of /cls.
by case: (class c.2 r) => i' j' /=; rewrite partE.
Qed.
Let clsP c r : c \in shares -> (r < n)%N ->
  [/\ in_cls c r r, 0 < mass_of c r, ((cls c r).2 <= n)%N &
      forall i, (i < n)%N -> in_cls c r i -> cls c i = cls c r].
Proof.
move=> c_in rn; have [_ /(_ c c_in)[_ ok] _] := sharesP; rewrite -size_ms in rn.
have [e_in e_r] := classP ok rn; have less := pair_less ok e_in.
split=> //; first exact: (part_gt0 ms_gt0 less).
  by rewrite -size_ms; case/andP: less.
by move=> i; rewrite -size_ms => i_n i_in; exact: (class_unique ok i_n e_in i_in).
Qed.
Let ranged i j (f : nat -> R) : (j <= n)%N ->
  \sum_(k < n) (if (i <= k < j)%N then f k else 0) = \sum_(i <= k < j) f k.
Proof.
move=> jn; rewrite (big_nat_widenl i 0) // (big_nat_widen 0 j n) // [RHS]big_mkcond big_mkord.
by apply: eq_bigr => k _; rewrite /= andbC.
Qed.
Let wt_ge0 r i : (r < n)%N -> 0 <= wt r i.
Proof.
move=> rn; rewrite wtE big_seq; apply: sumr_ge0 => c c_in; case: ifP => // _.
have [_ pos _ _] := clsP c_in rn; have [_ /(_ c c_in)[c0 _] _] := sharesP.
by rewrite divr_ge0 ?(ltW pos) // mulr_ge0 // ltW // ms_gt0 // size_ms.
Qed.
(* What is in each other's class. *)
Let in_clsC c r i : c \in shares -> (r < n)%N -> (i < n)%N -> in_cls c r i -> in_cls c i r.
Proof.
move=> c_in rn i_n ri; have [r_in _ _ same] := clsP c_in rn.
by rewrite /in_cls (same i i_n ri).
Qed.
Let wt_given i : (i < n)%N -> \sum_(r < n) wt r i = 1.
Proof.
move=> i_n; have [total1 _ _] := sharesP; rewrite -total1.
transitivity (\sum_(r < n) \sum_(c <- shares)
    if in_cls c r i then (c.1 : R) * m r / mass_of c r else 0).
  by apply: eq_bigr => r _; rewrite wtE.
rewrite exchange_big big_seq [RHS]big_seq; apply: eq_bigr => c c_in /=.
have [_ pos top same] := clsP c_in i_n.
transitivity (\sum_(r < n) if in_cls c i r then (c.1 : R) / mass_of c i * m r else 0).
  apply: eq_bigr => r _; have rn := ltn_ord r; case: ifP => ri; last first.
    by case: ifP => // /(in_clsC c_in i_n rn); rewrite ri.
  have ir := in_clsC c_in rn i_n ri; rewrite ir mulrAC /mass_of.
  by rewrite (same r rn ir).
rewrite (ranged _ (fun k => (c.1 : R) / mass_of c i * m k) top) -mulr_sumr.
by rewrite divfK // gt_eqF.
Qed.
Let wt_total r (x : nat -> R) : (r < n)%N -> \sum_(i < n) wt r i * x i =
  \sum_(c <- shares) (c.1 : R) * m r / mass_of c r * \sum_((cls c r).1 <= i < (cls c r).2) x i.
Proof.
move=> rn; transitivity (\sum_(i < n) \sum_(c <- shares)
    (if in_cls c r i then (c.1 : R) * m r / mass_of c r * x i else 0)).
  apply: eq_bigr => i _; rewrite wtE mulr_suml; apply: eq_bigr => c _.
  by case: ifP => _; rewrite ?mul0r.
rewrite exchange_big big_seq [RHS]big_seq; apply: eq_bigr => c c_in /=.
have [_ _ top _] := clsP c_in rn.
rewrite mulr_sumr; exact: (ranged _ (fun i => (c.1 : R) * m r / mass_of c r * x i) top).
Qed.

(* The scores after a token. *)
Lemma after_measured G a : q a != 0 -> measured G (after here a) =
  \sum_(i < n) wt (index a ranked) i * measured G (hand i).
Proof.
move=> qa; have a_in : a \in ranked by rewrite mem_tokens.
have rn : (index a ranked < n)%N by rewrite index_mem.
pose weights : seq R := [seq wt (index a ranked) i | i <- iota 0 (size (hands here))].
have -> : after here a =
    flatten [seq scaled_by e.1 e.2 | e <- zip weights (hands here) & ~~ (e.1 <= 0)].
  by rewrite /after a_in.
rewrite measured_weighted ?size_hands; first last.
- by rewrite size_map size_iota.
- by rewrite all_map; apply/allP => i _; apply: wt_ge0.
apply: eq_bigr => i _; rewrite (nth_map 0%N) ?size_iota ?size_hands //.
by rewrite nth_iota // add0n.
Qed.
Lemma after_ordered a : ordered 0 (after here a).
Proof.
rewrite /after; case: ifP => // a_in; have [flat_ok _ _] := dealt_hands.
exact: ordered_weighted flat_ok.
Qed.
Lemma after_reach a : reach (after here a) = (reach s : R) * q a.
Proof.
have [qa|qa] := eqVneq (q a) 0; first by have [-> _] := after_tokenless qa; rewrite qa mulr0.
have a_in : a \in ranked by rewrite mem_tokens.
have rn : (index a ranked < n)%N by rewrite index_mem.
have -> : (reach s : R) * q a = m (index a ranked) by rewrite msE // nth_index.
rewrite reachE after_measured //.
transitivity (\sum_(i < n) wt (index a ranked) i * m i).
  by apply: eq_bigr => i _; rewrite -reachE reach_hand.
rewrite wt_total //; have [total1 _ _] := sharesP.
rewrite -[RHS]mul1r -total1 mulr_suml big_seq [RHS]big_seq; apply: eq_bigr => c c_in.
by have [_ pos _ _] := clsP c_in rn; rewrite divfK // gt_eqF.
Qed.
(* The rule reaches what it aims at: the row is the part of the next token's scores that is the
   smallest among K. *)
Theorem aim_reached a : law_of here a = value count (after here a).
Proof.
have [qa|qa] := eqVneq (q a) 0; first by have [-> ->] := after_tokenless qa.
have a_in : a \in ranked by rewrite mem_tokens.
have rn : (index a ranked < n)%N by rewrite index_mem.
rewrite /law_of a_in valueE after_measured //.
transitivity (\sum_(i < n) wt (index a ranked) i * nth 0 most i); last first.
  by apply: eq_bigr => i _; rewrite nth_most // valueE.
have [_ _ <- //] := sharesP; rewrite wt_total // mulr_suml; apply: eq_bigr => c _.
rewrite levelE heightE -/(cls c _) -/(mass_of c _).
have regroup (x y z t : R) : x * (y / z) * t = x * t / z * y.
  by rewrite -!mulrA; congr (_ * _); rewrite mulrA mulrC [y * _]mulrC.
exact: regroup.
Qed.
Lemma after_shared G : fair G -> \sum_a measured G (after here a) = measured G s.
Proof.
move=> G_fair; rewrite -sum_tokens => [|a /after_tokenless[-> _]]; last first.
  by rewrite /measured big_nil.
have [_ _ <- //] := dealt_hands; rewrite measured_flatten.
transitivity (\sum_(r < n) \sum_(i < n) wt r i * measured G (hand i)).
  rewrite (big_nth some) big_mkord; apply: eq_bigr => r _.
  have r_in : nth some ranked r \in ranked by rewrite mem_nth.
  by rewrite after_measured -?mem_tokens // index_uniq // uniq_tokens.
rewrite exchange_big (big_nth [::]) size_hands big_mkord; apply: eq_bigr => i _ /=.
by rewrite -mulr_suml wt_given // mul1r.
Qed.
End Split.

(* ------------------------------------------------------------------------- the two verifiers *)
Section Theorems.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Variable count : nat.
Hypothesis some : (0 < count)%N.
Local Notation K := count.
Implicit Types (s : scores (field_numbers R)) (z x : seq T) (a : T) (n : nat).

Let p0 z a : 0 <= p z a. Proof. by case: (p_model z). Qed.

Let something s : ordered 0 s -> s <> [::] -> 0 < (reach s : R).
Proof.
case: s => [//|c s] /= /and3P[_ /and4P[_ _ _ m0] ok] _; rewrite reach_cons ltr_spaddl //.
exact: proper_reach (ordered_proper ok).
Qed.
Let value_ge0 s : ordered 0 s -> 0 <= (value K s : R).
Proof.
move=> ok; have top := ordered_top ok ler01; have /andP[low _] := value_at K ok top.
apply: le_trans low; rewrite mulr_ge0 ?(proper_reach (ordered_proper ok)) //.
by rewrite mulr_ge0 ?ler0n // exprn_ge0 // subr_ge0.
Qed.

Section Selected.
(* Anything may be passed on, but nothing negative. *)
Variable passed_on : R -> R -> R.
Hypothesis passed_on0 : forall owed selected, 0 <= owed -> 0 <= selected ->
  0 <= passed_on owed selected.
Local Notation split := (@split (field_numbers R) T vocabulary K).
Local Notation known_after := (@known_after (field_numbers R) T vocabulary passed_on p q K).
Local Notation known := (@known (field_numbers R) T vocabulary passed_on p q K).
Local Notation scores_of := (@scores_of (field_numbers R) T vocabulary passed_on p q K).
Local Notation scored := (@scored (field_numbers R) T vocabulary passed_on p q K).
Local Notation selected := (@selected (field_numbers R) T vocabulary passed_on p q K).

Let owed z : R := (known z).2.
Let here z := split (scores_of z) (owed z) (p z) (q z).

Lemma known_rcons z a :
  known (rcons z a) = (after (here z) a, passed_on (owed z * p z a) (law_of (here z) a)).
Proof.
rewrite /here /owed /scores_of /known.
have after_ y u v : known_after y (rcons z a) u v =
    let st := known_after y z u v in let d := split st.1 st.2 (p (y ++ z)) (q (y ++ z)) in
    (after d a, passed_on (st.2 * p (y ++ z) a) (law_of d a)).
  elim: z y u v => [|b z IH] y u v /=; first by rewrite cats0.
  by rewrite IH cat_rcons.
exact: after_.
Qed.

Let after_nothing v (r t : T -> R) a : after (split [::] v r t) a = [::].
Proof.
rewrite /after; case: ifP => // _.
have all_none (ms weights : seq R) : flatten [seq scaled_by e.1 e.2 |
    e <- zip weights (dealt (N := field_numbers R) [::] ms) & ~~ (e.1 <= 0)] = [::].
  elim: ms weights => [|x ms IH] [|y weights] //.
    by rewrite /=; case: (x <= 0).
  by rewrite /=; case: (x <= 0); rewrite /=; case: (y <= 0); rewrite /= IH.
exact: all_none.
Qed.
Let law_nothing v (r t : T -> R) a : 0 <= v -> (forall a, 0 <= r a) ->
  0 <= (law_of (split [::] v r t) a : R).
Proof.
move=> v0 r0; rewrite /law_of; case: ifP => // _; set aims : seq R := aim _.
suff : all (fun x : R => 0 <= x) aims.
  have [small|large] := ltnP (index a (tokens (split [::] v r t))) (size aims).
    by move/allP; apply; apply: mem_nth.
  by rewrite nth_default.
rewrite /aims /= /aimed all_cat all_rev; set ranks := zip _ _; set k := find _ _.
have ok : all (fun e : R * R => (0 <= e.1) && (e.2 == 0)) ranks.
  rewrite /ranks; elim: (sort _ _) => [|b s IH] //=.
  by rewrite mulr_ge0 //= mul0r eqxx.
rewrite !levelled_ge0 ?all_rev //; apply/allP => e e_in; apply: (allP ok).
  by apply: mem_drop e_in.
by apply: mem_take e_in.
Qed.
Lemma known_ok z : ordered 0 (scores_of z) /\ 0 <= owed z.
Proof.
elim/last_ind: z => [|z a [ok v0]].
  by rewrite /scores_of /owed /known /= /proper /= !lexx !ltr01 !ler01.
rewrite /scores_of /owed known_rcons /=.
case E: (scores_of z) => [|c s].
  by rewrite /here E after_nothing passed_on0 ?law_nothing ?mulr_ge0.
have pos : 0 < (reach (scores_of z) : R) by apply: (something ok); rewrite E.
rewrite (aim_reached complete K (p z) v0 (q_model z) ok pos).
have after_ok := after_ordered complete K (owed z) (p z) (q_model z) ok pos a.
by split; rewrite ?passed_on0 ?mulr_ge0 ?value_ge0.
Qed.
Lemma scores_rcons z a : scores_of (rcons z a) = after (here z) a.
Proof. by rewrite {1}/scores_of known_rcons. Qed.
Lemma scores_law z a : 0 <= (law_of (here z) a : R) /\
  (scores_of z <> [::] -> law_of (here z) a = value K (scores_of (rcons z a))).
Proof.
have [ok v0] := known_ok z; case E: (scores_of z) => [|c s].
  by split=> //; rewrite /here E; apply: law_nothing.
have pos : 0 < (reach (scores_of z) : R) by apply: (something ok); rewrite E.
have reached := aim_reached complete K (p z) v0 (q_model z) ok pos a.
rewrite scores_rcons -reached; split=> //; rewrite reached -scores_rcons value_ge0 //.
by case: (known_ok (rcons z a)).
Qed.

(* The scores are shared out fairly. *)
Lemma scores_root : scores_of [::] = uniform (field_numbers R). Proof. by []. Qed.
Lemma scores_proper z : all (@proper R) (scores_of z).
Proof. by have [ok _] := known_ok z; apply: ordered_proper ok. Qed.
Lemma scores_shared G z : fair G ->
  \sum_a measured G (scores_of (rcons z a)) = measured G (scores_of z).
Proof.
move=> G_fair; have [ok v0] := known_ok z; under eq_bigr do rewrite scores_rcons.
case E: (scores_of z) => [|c s]; last first.
  rewrite -E; apply: (after_shared complete K (p z) v0 (q_model z) ok) => //.
  by apply: (something ok); rewrite E.
rewrite big1 /measured ?big_nil // => a _.
by rewrite /here E after_nothing big_nil.
Qed.
Lemma scores_drafted z a :
  (reach (scores_of (rcons z a)) : R) = (reach (scores_of z) : R) * q z a.
Proof.
have [ok v0] := known_ok z; rewrite scores_rcons; case E: (scores_of z) => [|c s]; last first.
  rewrite -E; apply: (after_reach complete K (p z) v0 (q_model z) ok).
  by apply: (something ok); rewrite E.
by rewrite /here E after_nothing mul0r.
Qed.

Lemma scoredE z :
  scored z = completed (N := field_numbers R) vocabulary (law_of (here z)) (q z).
Proof. by rewrite /here /owed /scores_of /scored.scored; case: (known z). Qed.

(* The model of the selected path is a model, whatever is passed on. *)
Theorem scored_model : is_model scored.
Proof.
move=> z; rewrite scoredE; apply: (completed_row complete) (q_model z) => a.
by case: (scores_law z a).
Qed.
Lemma scored_next z a : scored z a * value K (scores_of z) = value K (scores_of (rcons z a)).
Proof.
case E: (scores_of z) => [|c s].
  have -> : scores_of (rcons z a) = [::] by rewrite scores_rcons /here E after_nothing.
  by rewrite /value /= mulr0.
have law_value b : law_of (here z) b = value K (scores_of (rcons z b)).
  by have [_ ->] := scores_law z b; rewrite ?E.
have total_z : \sum_b (law_of (here z) b : R) = value K (scores_of z).
  under eq_bigr do rewrite law_value valueE.
  by rewrite scores_shared ?valueE //; apply: fair_smallest.
rewrite -E -total_z scoredE (completedE complete) // => b.
by case: (scores_law z b).
Qed.

(* The selected path has the law of that model. *)
Theorem selected_scored n : selects vocabulary scored n (selected n).
Proof.
exact: (selected_fairly complete q_model some scores_root scores_proper scores_shared
  scores_drafted scored_model scored_next n).
Qed.
(* The selection is a law. *)
Theorem selected_scored_law n : is_law (selected n).
Proof.
exact: (selected_fairly_law complete q_model some scores_root scores_proper scores_drafted n).
Qed.
Lemma scored_text z : text (N := field_numbers R) scored [::] z = value K (scores_of z).
Proof.
have text_value x y : text (N := field_numbers R) scored y x *
    value K (scores_of y) = value K (scores_of (y ++ x)).
  elim: x y => [|a x IH] y /=; first by rewrite cats0 mul1r.
  by rewrite mulrAC scored_next mulrC IH cat_rcons.
rewrite -[LHS]mulr1 -[RHS](text_value z [::]); congr (_ * _).
rewrite scores_root valueE /measured /uniform big_seq1 /= mul1r.
by have := smallest_amongE K (0 : R) 1; rewrite subr0 mul1r subrr expr1n expr0n gtn_eqF // subr0.
Qed.
(* It starts with z with the part of the scores of z that is the smallest among K. *)
Theorem selected_scored_starts n z : probability (prefix z) (selected n) =
  if (size z <= n)%N then value K (scores_of z) : R else 0.
Proof.
rewrite /probability selected_scored -/(probability _ _) (path_prefix complete scored_model).
by rewrite scored_text.
Qed.

Lemma selected_path_of n : greedy_block.path_of scored n (selected n).
Proof.
split=> [|x]; first exact: selected_scored_law.
rewrite /probability selected_scored -/(probability _ _).
exact: (greedy_block.path_law complete scored_model).
Qed.
End Selected.

(* Verified as a block. *)
Section Block.
Local Notation known := (@known (field_numbers R) T vocabulary (@least (field_numbers R)) p q K).
Local Notation scores_of :=
  (@scores_of (field_numbers R) T vocabulary (@least (field_numbers R)) p q K).
Local Notation scored := (@scored (field_numbers R) T vocabulary (@least (field_numbers R)) p q K).
Local Notation selected :=
  (@selected (field_numbers R) T vocabulary (@least (field_numbers R)) p q K).
Local Notation scored_multipath_block :=
  (@scored_multipath_block (field_numbers R) T vocabulary p q K).

Lemma least_ge0 (a b : R) : 0 <= a -> 0 <= b -> 0 <= least (N := field_numbers R) a b.
Proof. by move=> a0 b0; rewrite leastE le_minr a0. Qed.
Let rows_model : is_model scored. Proof. exact: scored_model least_ge0. Qed.
Let has_law n : selects vocabulary scored n (selected n).
Proof. exact: (selected_scored least_ge0). Qed.
Let owed z : R := (known z).2.

(* The outcome is that of block verification of a path drawn from the model of the selected path. *)
Theorem scored_multipath_block_outcome n f :
  expected f (scored_multipath_block n) = expected f (block vocabulary p scored n).
Proof. exact: selected_block (has_law n). Qed.
(* The probability that at least x is accepted. *)
Theorem scored_multipath_block_accepts n x : accepts x (scored_multipath_block n) =
  if (size x <= n)%N then kept_mass (N := field_numbers R) p scored x [::] 1 else 0.
Proof.
by rewrite -(block_accepts complete p_model rows_model); exact: scored_multipath_block_outcome.
Qed.
Lemma nothing_owed z : scores_of z = [::] -> owed z = 0.
Proof.
elim/last_ind: z => [//|z a IH] none; rewrite /owed known_rcons /= leastE -/(owed z).
have [_ v0] := known_ok least_ge0 z; have := scores_law least_ge0 z a; rewrite -/(owed z).
move: (law_of _ a) => x [law0 law_value]; case E: (scores_of z) => [|c s].
  by rewrite (IH E) mul0r; apply/min_idPl.
by rewrite law_value ?E // none; apply/min_idPr; rewrite mulr_ge0.
Qed.
Lemma owed_kept z : owed z = kept_mass (N := field_numbers R) p scored z [::] 1.
Proof.
elim/last_ind: z => [//|z a IH].
rewrite (kept_rcons p_model rows_model) ?ler01 // cat0s -IH (scored_text least_ge0).
rewrite /owed known_rcons /= leastE -/(owed z).
have := scores_law least_ge0 z a; rewrite -/(owed z); move: (law_of _ a) => x [law0 law_value].
case E: (scores_of z) => [|c s]; last by rewrite law_value ?E.
have [ok _] := known_ok least_ge0 (rcons z a).
by rewrite (nothing_owed E) mul0r; transitivity (0 : R);
  [apply/min_idPl|apply/esym/min_idPl; apply: value_ge0].
Qed.
(* What the rule takes for owed to z is the probability that z is accepted. *)
Theorem scored_multipath_block_known n z : accepts z (scored_multipath_block n) =
  if (size z <= n)%N then (known z).2 : R else 0.
Proof. by rewrite scored_multipath_block_accepts -owed_kept. Qed.
(* Of a text that is accepted and a next token, the longer text is accepted with the target's share
   of it, or with the probability that the selected path starts with it, whichever is less. *)
Theorem scored_multipath_block_next n z a : (size z < n)%N ->
  accepts (rcons z a) (scored_multipath_block n) =
  Num.min (accepts z (scored_multipath_block n) * p z a)
    (probability (prefix (rcons z a)) (selected n)).
Proof.
move=> inside; rewrite !scored_multipath_block_accepts (selected_scored_starts least_ge0).
rewrite size_rcons inside ltnW // (kept_rcons p_model rows_model) ?ler01 // cat0s.
by rewrite (scored_text least_ge0).
Qed.
(* The probability that x alone is accepted and a is next. *)
Theorem scored_multipath_block_ends n x a :
  ends x a (scored_multipath_block n) = end_mass p scored n x a [::] 1.
Proof.
by rewrite -(block_ends complete p_model rows_model); exact: scored_multipath_block_outcome.
Qed.
(* The outcome is a law. *)
Theorem scored_multipath_block_law n : is_law (scored_multipath_block n).
Proof.
apply: (selected_block_law complete p_model rows_model) (has_law n).
by case: (selected_scored_law least_ge0 n).
Qed.
(* The text has the target's law, at every horizon. *)
Theorem scored_multipath_block_lossless n : lossless p (scored_multipath_block n).
Proof. exact: (selected_block_lossless complete p_model rows_model (has_law n)). Qed.
(* The law is balanced. *)
Theorem scored_multipath_block_balanced n : balanced p (scored_multipath_block n).
Proof.
apply/(lossless_balanced p (scored_multipath_block_law n)); exact: scored_multipath_block_lossless.
Qed.
End Block.

(* Verified greedily. *)
Section Greedy.
Local Notation all_of_it := (@all_of_it (field_numbers R)).
Local Notation known := (@known (field_numbers R) T vocabulary all_of_it p q K).
Local Notation scored := (@scored (field_numbers R) T vocabulary all_of_it p q K).
Local Notation selected := (@selected (field_numbers R) T vocabulary all_of_it p q K).
Local Notation text := (@text (field_numbers R) T).
Local Notation scored_greedy_block := (@scored_greedy_block (field_numbers R) T vocabulary p q K).
Local Notation modified := (@greedy_block.modified (field_numbers R) T vocabulary p scored).

Lemma all_of_it_ge0 (a b : R) : 0 <= a -> 0 <= b -> 0 <= (all_of_it a b : R).
Proof. by []. Qed.
Let rows_model : is_model scored. Proof. exact: scored_model all_of_it_ge0. Qed.
Let has_law n : greedy_block.path_of scored n (selected n).
Proof. exact: (selected_path_of all_of_it_ge0). Qed.

(* What the rule takes for owed to z is the probability that the target writes z. *)
Theorem scored_greedy_block_known z : (known z).2 = text p [::] z.
Proof.
by elim/last_ind: z => [//|z a IH]; rewrite known_rcons text_rcons /= -IH.
Qed.
(* The outcome is a law. *)
Theorem scored_greedy_block_law n : is_law (scored_greedy_block n).
Proof. exact: (greedy_block.greedy_block_law complete p_model rows_model (has_law n)). Qed.
(* It accepts what the target and the selected path share: x with the probability that the target
   writes x, or with the probability that the selected path starts with x, whichever is less. *)
Theorem scored_greedy_block_accepts n x : accepts x (scored_greedy_block n) =
  Num.min (text p [::] x) (probability (prefix x) (selected n)).
Proof.
rewrite (greedy_block.accepts_greedy_block complete p_model rows_model x (has_law n)).
rewrite /greedy_block.shared (selected_scored_starts all_of_it_ge0) (scored_text all_of_it_ge0).
by case: ifP => // _; apply/esym/min_idPr/text_ge0.
Qed.
(* The probability that x alone is accepted and a is next is
   (s(x) - sum of s(xb) over all b) M(a|x), where s(x) is the probability that x is accepted, and M
   is the modified target. *)
Theorem scored_greedy_block_ends n x a : ends x a (scored_greedy_block n) =
  (accepts x (scored_greedy_block n) - \sum_b accepts (rcons x b) (scored_greedy_block n))
  * modified n x a.
Proof.
rewrite (greedy_block.ends_greedy_block complete p_model rows_model x a (has_law n)).
rewrite /greedy_block.shared_exactly.
rewrite (greedy_block.accepts_greedy_block complete p_model rows_model x (has_law n)).
congr ((_ - _) * _); apply: eq_bigr => b _; apply/esym.
exact: (greedy_block.accepts_greedy_block complete p_model rows_model _ (has_law n)).
Qed.
(* One iteration, continued by the modified target, has the target's law at every horizon. *)
Theorem scored_greedy_block_lossless n t :
  writes (modified n) t (scored_greedy_block n) = text p [::] t.
Proof.
exact: (greedy_block.greedy_block_lossless complete p_model rows_model t (has_law n)).
Qed.
(* The expected number of accepted tokens is what the target and the selected path share, summed
   over all texts of 1 to n tokens. *)
Theorem scored_greedy_block_length n :
  expected (fun e => (size e.1)%:R) (scored_greedy_block n) =
  \sum_(k < n) \sum_(x : k.+1.-tuple T)
    Num.min (text p [::] x) (probability (prefix (x : seq T)) (selected n)).
Proof.
rewrite (greedy_block.expected_length complete p_model rows_model (has_law n)).
apply: eq_bigr => k _; apply: eq_bigr => x _; rewrite (selected_scored_starts all_of_it_ge0).
by rewrite size_tuple ltn_ord (scored_text all_of_it_ge0).
Qed.
End Greedy.
End Theorems.

(* Any number of iterations, each against the target that the last one left, with new drafts, are
   lossless: what they write, continued by the target that is left, begins with t with probability
   p(t). *)
Theorem scored_greedy_decoded_lossless (R : realFieldType) (T : finType) (vocabulary : seq T)
    (p draft : seq T -> T -> R) (count n iterations : nat) (t : seq T) :
  perm_eq vocabulary (enum T) -> is_model p -> is_model draft -> (0 < count)%N ->
  let draft_after written := greedy_block.after (N := field_numbers R) draft written in
  let law written target := scored (N := field_numbers R) vocabulary
    (@all_of_it (field_numbers R)) target (draft_after written) count in
  let path written target := selected (N := field_numbers R) vocabulary
    (@all_of_it (field_numbers R)) target (draft_after written) count n in
  expected (fun o => greedy_block.begins_after o.2 t o.1) (greedy_block.decoded
    (greedy_block.greedy_iteration vocabulary (fun _ _ => n) path law) iterations [::] p) =
  text (N := field_numbers R) p [::] t.
Proof.
move=> complete p_ok draft_ok some draft_after law path.
have after_ok written : is_model (draft_after written) by exact: greedy_block.after_model.
apply: greedy_block.greedy_block_decoded_lossless => // written target target_ok.
  exact: (scored_model complete _ _ count (@all_of_it_ge0 R)).
exact: (selected_path_of complete _ _ some (@all_of_it_ge0 R)).
Qed.
(* The first tokens that iterations write, as many as there are iterations, have the target's law:
   they begin with t with probability p(t). *)
Theorem scored_greedy_decoded_starts (R : realFieldType) (T : finType) (vocabulary : seq T)
    (p draft : seq T -> T -> R) (count n iterations : nat) (t : seq T) :
  perm_eq vocabulary (enum T) -> is_model p -> is_model draft -> (0 < count)%N ->
  (size t <= iterations)%N ->
  let draft_after written := greedy_block.after (N := field_numbers R) draft written in
  let law written target := scored (N := field_numbers R) vocabulary
    (@all_of_it (field_numbers R)) target (draft_after written) count in
  let path written target := selected (N := field_numbers R) vocabulary
    (@all_of_it (field_numbers R)) target (draft_after written) count n in
  probability (fun o => prefix t o.1) (greedy_block.decoded
    (greedy_block.greedy_iteration vocabulary (fun _ _ => n) path law) iterations [::] p) =
  text (N := field_numbers R) p [::] t.
Proof.
move=> complete p_ok draft_ok some len draft_after law path.
have after_ok written : is_model (draft_after written) by exact: greedy_block.after_model.
apply: greedy_block.greedy_block_decoded_starts => // written target target_ok.
  exact: (scored_model complete _ _ count (@all_of_it_ge0 R)).
exact: (selected_path_of complete _ _ some (@all_of_it_ge0 R)).
Qed.
