(* A rule along the path that always keeps 1 - (1 - 1/K)^K of the optimum.

   No lossless verifier of K independent paths that leaves the target as it is accepts x more often
   than M(x), where M is 1 at the root and M(xa) = min(M(x) p(a|x), K q(xa)): one path starts with
   xa with probability q(xa). The rule selects a path by scores, as in `scored`. Of the scores of x
   the smallest, of the mass of all M(xa)/K, go to the tokens in proportion to M(xa), and the others
   by what is left of the draft; so the law of a path is computable along the path. Proved for
   every vocabulary, number and length of paths and pair of models, with c = 1 - (1 - 1/K)^K: the
   smallest scores of x, of any mass t up to M(x)/K, are those of the selected path with a
   probability of at least c K t. So block verification of the selected path, which is lossless,
   accepts x with a probability of at least c M(x), and on average at least c times as many tokens
   as any lossless verifier that leaves the target as it is. With p(x) p(a|x) for M(x) p(a|x), the
   same is proved of greedy block verification and of verifiers that leave a modified target.
   Draftproof's own. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission block descent selection mixed scored.
From Draftproof Require greedy_block off_the_path.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T).
Local Open Scope number_scope.
Variables (p q : model N T) (count : nat).

(* The most that can be accepted, by what is accepted of z and by the draft's probability of z. *)
Fixpoint most_after (z rest : seq T) (bound drafted : N) : N :=
  if rest is a :: rest' then
    let drafted' := drafted * q z a in
    most_after (rcons z a) rest' (least (bound * p z a) (natural N count * drafted')) drafted'
  else bound.
Definition most (z : seq T) : N := most_after [::] z 1 1.

(* A share of the masses of scores. *)
Definition scaled (share : N) (s : scores N) : scores N :=
  if share <= 0 then [::] else [seq Cell (low c) (high c) (mass c * share) | c <- s].

(* The most that can be accepted of the tokens after a prefix, if so much is owed to it. *)
Definition bounds (s : scores N) (owed : N) (p q : row N T) : row N T := fun a =>
  least (owed * p a) (natural N count * (reach s * q a)).

(* The scores of a token: of the smallest ones, as many as can be of use, in proportion to the
   bounds of the tokens, and of the others what is left of its draft. *)
Definition evenly (s : scores N) (owed : N) (p q : row N T) (a : T) : scores N :=
  let bound := bounds s owed p q in
  let best := total vocabulary bound / natural N count in
  let wanted := bound a / natural N count in
  let '(first, rest) := cut s best in
  scaled (ratio_or_one wanted best) first
  ++ scaled (ratio_or_one (reach s * q a - wanted) (reach s - best)) rest.

Section Rule.
(* What a prefix z passes on to za as owed: by what the target owes to za, and by what the drafts
   allow of it. *)
Variable passed_on : N -> N -> N.

(* What is known at a prefix: its scores, and what is owed to it. *)
Fixpoint even_known_after (z rest : seq T) (s : scores N) (owed : N) : scores N * N :=
  if rest is a :: rest' then
    even_known_after (rcons z a) rest' (evenly s owed (p z) (q z) a)
      (passed_on (owed * p z a) (natural N count * (reach s * q z a)))
  else (s, owed).
Definition even_known (z : seq T) : scores N * N := even_known_after [::] z (uniform N) 1.
Definition even_scores (z : seq T) : scores N := (even_known z).1.

(* The law of the selected path; off the paths, the draft's own. *)
Definition evened : model N T := fun z =>
  completed vocabulary (fun a => value count (even_scores (rcons z a))) (q z).

Definition even_selected (length : nat) : law N (seq T) :=
  drafted <- independent (path vocabulary q length [::]) count ;; select even_scores drafted.
End Rule.

(* Verified as a block, a prefix passes on no more than the drafts allow. *)
Definition even_multipath_block (length : nat) : law N (emission T) :=
  path <- even_selected (@least N) length ;;
  verify vocabulary p (evened (@least N)) path.

(* Verified greedily, it passes on all of it, and the verification leaves a modified target. *)
Definition even_greedy_block (length : nat) : law N (emission T) :=
  greedy_block.greedy_block vocabulary p (evened (@all_of_it N)) length
    (even_selected (@all_of_it N) length).
End Programs.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments coin : simpl never.
Local Arguments expected : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ----------------------------------------------------------------------- the rows that are read *)
Section Along.
Variables (N : numbers) (T : eqType) (vocabulary : seq T) (count : nat) (passed_on : N -> N -> N).
Local Notation evenly := (@evenly N T vocabulary count).

Lemma eq_evenly (s : scores N) (owed : N) (p p' q q' : T -> N) (a : T) : p =1 p' -> q =1 q' ->
  evenly s owed p q a = evenly s owed p' q' a.
Proof.
move=> pp qq; have bound b : bounds count s owed p q b = bounds count s owed p' q' b.
  by rewrite /bounds pp qq.
have whole :
    total vocabulary (bounds count s owed p q) = total vocabulary (bounds count s owed p' q').
  by rewrite /total; elim: vocabulary => //= b r ->; rewrite bound.
by rewrite /evenly whole bound qq.
Qed.
(* The scores of z, and what is owed to z, follow from the rows at the prefixes of z that are
   shorter than z: models with the same rows there have the same scores. *)
Theorem even_known_along (p p' q q' : model N T) (z : seq T) :
  (forall y, prefix y z -> y != z -> p y =1 p' y /\ q y =1 q' y) ->
  even_known vocabulary p q count passed_on z = even_known vocabulary p' q' count passed_on z.
Proof.
rewrite /even_known; move: (uniform N) (one : N) => s owed same.
have {}same u : prefix u z -> u != z ->
    p ([::] ++ u) =1 p' ([::] ++ u) /\ q ([::] ++ u) =1 q' ([::] ++ u) by exact: same.
elim: z [::] s owed same => [|a z IH] y s owed same //=.
have [|//|pp qq] := same [::]; first exact: prefix0s.
rewrite cats0 in pp qq; rewrite pp qq (eq_evenly s owed a pp qq); apply: IH => u uz ne.
by rewrite cat_rcons; apply: same; rewrite ?prefix_cons ?eqxx // eqseq_cons eqxx.
Qed.
End Along.

(* -------------------------------------------------------------- the smallest scores of a mass *)
Section Smallest.
Variable R : realFieldType.
Local Notation scores := (scores (field_numbers R)).
Local Notation cut := (cut (N := field_numbers R)).
Local Notation scaled := (scaled (N := field_numbers R)).
Implicit Types (s : scores) (t x best : R) (G : R -> R -> R).

Lemma cut_nothing s t : t <= 0 -> cut s t = ([::], s).
Proof. by case: s => [|c s] /= ->. Qed.
Lemma cut_cat s s' t : t <= reach s -> (cut (s ++ s') t).1 = (cut s t).1.
Proof.
elim: s t => [|c s IH] t /=; first by move=> t0; rewrite cut_nothing // t0.
rewrite reach_cons => le; case: ifP => // _; case: ifP => // _.
have := IH (t - (mass c : R)); rewrite ler_subl_addl => /(_ le).
by case: (cut (s ++ s') _) => h r; case: (cut s _) => h' r' /= ->.
Qed.
Lemma cut_cut s best t : t <= best -> (cut (cut s best).1 t).1 = (cut s t).1.
Proof.
elim: s best t => [|c s IH] best t le.
  by rewrite /=; case: (best <= 0); rewrite /=; case: ifP.
have [t0|t_pos] := lerP t 0; first by rewrite !(cut_nothing _ t0).
have best_pos := lt_le_trans t_pos le.
have no_t : (t <= 0) = false by rewrite leNgt t_pos.
have no_best : (best <= 0) = false by rewrite leNgt best_pos.
rewrite [cut (c :: s) best]/= no_best [cut (c :: s) t]/= no_t.
case: (lerP best (mass c : R)) => [bm|mb]; rewrite [cut _ t]/= ?no_t ?le.
  rewrite (le_trans le bm) /=; congr [:: Cell _ _ _].
  rewrite [_ + _ - _]addrC addKr; congr (_ + _).
  rewrite -!mulrA; congr (_ * _).
  by rewrite mulrC -mulrA divfK ?gt_eqF // mulrC.
move: (IH (best - (mass c : R)) (t - (mass c : R))); rewrite ler_add2r => /(_ le).
case: (cut s (best - _)) => h r /=; rewrite no_t; case: ifP => // _.
by case: (cut h _) => h1 r1; case: (cut s _) => h2 r2 /= ->.
Qed.

Lemma scaled_none x s : x <= 0 -> scaled x s = [::].
Proof. by rewrite /scaled /= => ->. Qed.
Lemma scaled_by_scaled x s : 0 < x -> scaled x s = scaled_by x s.
Proof. by move=> x0; rewrite /scaled /= leNgt x0. Qed.
Lemma measured_share G x s : 0 <= x -> measured G (scaled x s) = x * measured G s.
Proof.
rewrite le_eqVlt => /orP[/eqP<-|x0]; last by rewrite scaled_by_scaled ?measured_scaled.
by rewrite scaled_none // mul0r /measured big_nil.
Qed.
Lemma cut_scaled x s t : 0 < x -> (cut (scaled_by x s) t).1 = scaled_by x (cut s (t / x)).1.
Proof.
move=> x0; elim: s t => [|c s IH] t /=; first by case: (t <= 0); case: (t / x <= 0).
have pos y : (y / x <= 0) = (y <= 0) by rewrite ler_pdivr_mulr // mul0r.
rewrite pos ler_pdivr_mulr //; case: (lerP t 0) => // t0; case: ifP => _ /=.
  rewrite divfK ?gt_eqF //; congr [:: Cell _ _ _]; congr (_ + _); rewrite -!mulrA; congr (_ * _).
  by rewrite invfM [t * _]mulrA -mulrA [_^-1 * _]mulrC mulrA.
have -> : t / x - (mass c : R) = (t - (mass c : R) * x) / x by rewrite mulrBl mulfK ?gt_eqF.
move: (IH (t - (mass c : R) * x)); case: (cut (scaled_by x s) _) => h r.
by case: (cut s _) => h' r' /= ->.
Qed.

Variable K : nat.

Lemma smallest_among_ge0 a b : a <= 1 -> b <= 1 -> 0 <= smallest_among K a b :> R.
Proof.
move=> a1 b1; apply: sumr_ge0 => i _.
by rewrite mulr_ge0 // exprn_ge0 // subr_ge0.
Qed.
Lemma value_ge0 s : all (@proper R) s -> 0 <= (value K s : R).
Proof.
rewrite valueE; elim: s => [|c s IH] /=; first by rewrite /measured big_nil.
case/andP=> /and4P[_ lh h1 m0] /IH v0; rewrite measured_cons addr_ge0 // mulr_ge0 ?(ltW m0) //.
by apply: smallest_among_ge0 => //; apply: le_trans (ltW lh) h1.
Qed.
Lemma value_cat s s' : value K (s ++ s') = (value K s : R) + value K s'.
Proof. by rewrite !valueE measured_cat. Qed.
Lemma value_scaled x s : 0 <= x -> value K (scaled x s) = x * (value K s : R).
Proof. by move=> x0; rewrite !valueE measured_share. Qed.
(* All scores are worth as much as the smallest. *)
Lemma value_cut s t : ordered 0 s -> 0 <= t -> t <= reach s ->
  value K (cut s t).1 <= (value K s : R).
Proof.
move=> ok t0 tr; have [hr_ok _ same] := cutP ok t0 tr.
rewrite [X in _ <= X]valueE -(same _ (@fair_smallest _ K)) -valueE value_cat ler_addl value_ge0 //.
by move: (ordered_proper hr_ok); rewrite all_cat => /andP[].
Qed.
End Smallest.

(* -------------------------------------------------------------------------- the certain share *)
Section Share.
Variables (R : realFieldType) (K : nat).
Hypothesis some : (0 < K)%N.

(* The share 1 - (1 - 1/K)^K. *)
Definition certain_share : R := 1 - (1 - K%:R^-1) ^+ K.

Let K_pos : 0 < K%:R :> R. Proof. by rewrite ltr0n. Qed.
Let part01 : 0 <= (1 - K%:R^-1 : R) <= 1.
Proof.
rewrite subr_ge0 invf_le1 // ler1n some /= ler_subl_addr ler_addl invr_ge0.
exact: ltW.
Qed.

Lemma one_minus_power (x : R) n : 1 - (1 - x) ^+ n = x * \sum_(i < n) (1 - x) ^+ i.
Proof.
have := subrXX 1 (1 - x) n; rewrite expr1n opprB addrCA subrr addr0 => ->; congr (_ * _).
by apply: eq_bigr => i _; rewrite expr1n mul1r.
Qed.
Lemma power_at_most (x : R) n : 0 <= x <= 1 -> 1 - (1 - x) ^+ n <= n%:R * x.
Proof.
move=> /andP[x0 x1]; rewrite one_minus_power mulrC ler_wpmul2r //.
rewrite -[X in _ <= X%:R]card_ord -sumr_const; apply: ler_sum => i _.
by rewrite exprn_ile1 ?subr_ge0 // ler_subl_addr ler_addl.
Qed.
(* The smallest scores of all, of a mass t up to 1/K. *)
Lemma certain_at_root (t : R) : 0 <= t -> t <= K%:R^-1 ->
  certain_share * (K%:R * t) <= 1 - (1 - t) ^+ K.
Proof.
move=> t0 tK; rewrite /certain_share !one_minus_power mulrACA mulVf ?gt_eqF // mul1r mulrC.
rewrite ler_wpmul2l //; apply: ler_sum => i _; rewrite ler_expn2r ?nnegrE //.
- by case/andP: part01.
- by rewrite subr_ge0 (le_trans tK) // invf_le1 // ler1n.
by rewrite ler_add2l ler_opp2.
Qed.
Lemma certain_share01 : 0 <= certain_share <= 1.
Proof.
have /andP[x0 x1] := part01.
by rewrite subr_ge0 exprn_ile1 // ler_subl_addr ler_addl exprn_ge0.
Qed.
(* The share that can always be kept, 1 - (1 - 1/K)^K for K > 0 paths, is at least a half. *)
Theorem certain_share_half : 2%:R^-1 <= certain_share.
Proof.
have /andP[x0 _] := part01; rewrite /certain_share ler_subr_addl -ler_subr_addr.
have -> : 1 - 2%:R^-1 = 2%:R^-1 :> R.
  by rewrite [X in X - _](splitr 1) mul1r addrK.
rewrite -[2%:R^-1]mul1r ler_pdivl_mulr ?ltr0n //.
have bernoulli n (x : R) : 0 <= x -> 1 + n%:R * x <= (1 + x) ^+ n.
  move=> x_ge0; elim: n => [|n IH]; first by rewrite mul0r addr0 expr0.
  rewrite exprS; apply: le_trans (_ : (1 + x) * (1 + n%:R * x) <= _); last first.
    by rewrite ler_wpmul2l // addr_ge0 ?ler01.
  rewrite [X in _ <= X]mulrDl mul1r [x * _]mulrDr mulr1 addrA ler_paddr ?mulr_ge0 ?ler0n //.
  by rewrite -addn1 natrD mulrDl mul1r addrA.
have inv_ge0 : 0 <= K%:R^-1 :> R by rewrite invr_ge0 ltW.
have two : 2%:R <= (1 + K%:R^-1) ^+ K :> R.
  by apply: le_trans (bernoulli K _ inv_ge0); rewrite divff ?gt_eqF.
apply: le_trans (_ : (1 - K%:R^-1) ^+ K * (1 + K%:R^-1) ^+ K <= 1).
  by rewrite ler_wpmul2l // exprn_ge0.
rewrite -exprMn exprn_ile1 //; first by rewrite mulr_ge0 // addr_ge0 ?ler01.
by rewrite -subr_sqr expr1n ler_subl_addr ler_addl sqr_ge0.
Qed.
End Share.

(* -------------------------------------------------------------------- one token of the rule *)
Section Step.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation scores := (scores (field_numbers R)).
Local Notation cut := (cut (N := field_numbers R)).
Local Notation scaled := (scaled (N := field_numbers R)).
Variable count : nat.
Hypothesis some : (0 < count)%N.
Local Notation K := count.
Variables (s : scores) (owed : R) (p q : T -> R).
Hypothesis s_ordered : ordered 0 s.
Hypothesis owed0 : 0 <= owed.
Hypotheses (p_row : is_row p) (q_row : is_row q).
Local Notation evenly := (@evenly (field_numbers R) T vocabulary K s owed p q).
Implicit Types (a : T) (t : R) (G : R -> R -> R).

Let p0 a : 0 <= p a. Proof. by case: p_row. Qed.
Let q0 a : 0 <= q a. Proof. by case: q_row. Qed.
Let K_pos : 0 < K%:R :> R. Proof. by rewrite ltr0n. Qed.
Let m : R := reach s.
Let m0 : 0 <= m. Proof. exact: proper_reach (ordered_proper s_ordered). Qed.

(* The most that can be accepted of the prefix, and of its tokens. *)
Definition most_here : R := Num.min owed (K%:R * m).
Definition most_of a : R := Num.min (owed * p a) (K%:R * (m * q a)).

Lemma most_of_ge0 a : 0 <= most_of a.
Proof. by rewrite le_minr !mulr_ge0 // ltW. Qed.
Lemma most_of_drafted a : most_of a / K%:R <= m * q a.
Proof. by rewrite ler_pdivr_mulr // [_ * K%:R]mulrC le_minl lexx orbT. Qed.
Lemma most_of_total : \sum_a most_of a <= most_here.
Proof.
have [_ p1] := p_row; have [_ q1] := q_row; rewrite le_minr; apply/andP; split.
  have -> : owed = \sum_a owed * p a by rewrite -mulr_sumr p1 mulr1.
  by apply: ler_sum => a _; rewrite le_minl lexx.
have -> : K%:R * m = \sum_a K%:R * (m * q a) by rewrite -!mulr_sumr q1 mulr1.
by apply: ler_sum => a _; rewrite le_minl lexx orbT.
Qed.

Let best : R := \sum_a most_of a / K%:R.
Let best0 : 0 <= best. Proof. by apply: sumr_ge0 => a _; rewrite divr_ge0 ?most_of_ge0 ?ltW. Qed.
Let best_drafted : best <= m.
Proof.
have [_ q1] := q_row; have -> : m = \sum_a m * q a by rewrite -mulr_sumr q1 mulr1.
by apply: ler_sum => a _; apply: most_of_drafted.
Qed.
Let best_most : best <= most_here / K%:R.
Proof. by rewrite /best -mulr_suml ler_wpmul2r ?invr_ge0 ?(ltW K_pos) ?most_of_total. Qed.

Let first := (cut s best).1.
Let rest := (cut s best).2.
Let cut_ok : [/\ ordered 0 (first ++ rest), reach first = best
  & forall G, fair G -> measured G (first ++ rest) = measured G s].
Proof. exact: cutP. Qed.
Let first_ok : ordered 0 first. Proof. by case: cut_ok; rewrite ordered_cat => /andP[]. Qed.
Let rest_ok : ordered (upper 0 first) rest.
Proof. by case: cut_ok; rewrite ordered_cat => /andP[]. Qed.
Let reach_rest : reach rest = m - best.
Proof.
have [_ first_m same] := cut_ok; apply/eqP; rewrite eq_sym subr_eq addrC -first_m.
by rewrite /m ![reach _]reachE -measured_cat (same _ (@fair_one R)).
Qed.

(* The shares that go on with a token. *)
Let wanted a := most_of a / K%:R.
Let left_of a := m * q a - wanted a.
Let of_first a : R := ratio_or_one (N := field_numbers R) (wanted a) best.
Let of_rest a : R := ratio_or_one (N := field_numbers R) (left_of a) (m - best).

Lemma evenlyE a : evenly a = scaled (of_first a) first ++ scaled (of_rest a) rest.
Proof.
have bound b : bounds K s owed p q b = most_of b :> R by rewrite /bounds leastE naturalE.
rewrite /evenly /= (totalE complete) naturalE bound.
under eq_bigr do rewrite bound; rewrite mulr_suml -/best.
by rewrite /first /rest; case: (cut s best).
Qed.

Let wanted0 a : 0 <= wanted a. Proof. by rewrite divr_ge0 ?most_of_ge0 ?ltW. Qed.
Let left_of0 a : 0 <= left_of a. Proof. by rewrite subr_ge0 most_of_drafted. Qed.
Let left_total : \sum_a left_of a = m - best.
Proof. by have [_ q1] := q_row; rewrite sumrB -mulr_sumr q1 mulr1. Qed.

(* Shares of a part of the scores. *)
Let shares (part : scores) (whole : R) (parts : T -> R) a : all (@proper R) part ->
  reach part = whole -> (forall b, 0 <= parts b) -> \sum_b parts b = whole ->
  let share b : R := ratio_or_one (N := field_numbers R) (parts b) whole in
  [/\ 0 <= share a, share a * reach part = parts a
    & forall G, \sum_b share b * measured G part = measured G part].
Proof.
move=> ok reach_part parts0 sums share; have whole0 : 0 <= whole by rewrite -sums sumr_ge0.
rewrite /share /ratio_or_one /= reach_part; case: (lerP whole 0) => [none|pos].
  have zero : whole = 0 by apply/eqP; rewrite eq_le none whole0.
  split=> [||G]; first exact: ler01.
    rewrite mul1r zero; move/eqP: sums; rewrite zero psumr_eq0 // => /allP/(_ a).
    by rewrite mem_index_enum => /(_ isT)/eqP.
  have -> : measured G part = 0 by apply: measured_nothing; rewrite ?reach_part.
  by rewrite big1 // => b _; rewrite mulr0.
split=> [||G]; first by rewrite divr_ge0.
  by rewrite divfK ?gt_eqF.
by rewrite -mulr_suml -mulr_suml sums divff ?gt_eqF // mul1r.
Qed.
Let sharesE a := shares a (ordered_proper first_ok) (let: And3 _ r _ := cut_ok in r) wanted0 erefl.
Let left_sharesE a := shares a (ordered_proper rest_ok) reach_rest left_of0 left_total.
Let of_first0 a : 0 <= of_first a. Proof. by case: (sharesE a). Qed.
Let of_rest0 a : 0 <= of_rest a. Proof. by case: (left_sharesE a). Qed.

Lemma evenly_measured G a :
  measured G (evenly a) = of_first a * measured G first + of_rest a * measured G rest.
Proof. by rewrite evenlyE measured_cat !measured_share. Qed.
Lemma evenly_shared G : fair G -> \sum_a measured G (evenly a) = measured G s.
Proof.
move=> G_fair; under eq_bigr do rewrite evenly_measured; rewrite big_split /=.
have [a|none] := pickP (@predT T); last first.
  by have := oner_neq0 R; rewrite -(proj2 q_row) big_pred0 ?eqxx.
have [_ _ ->] := sharesE a; have [_ _ ->] := left_sharesE a.
by have [_ _ <- //] := cut_ok; rewrite measured_cat.
Qed.
Lemma evenly_reach a : reach (evenly a) = (reach s : R) * q a.
Proof.
rewrite [LHS]reachE evenly_measured -!reachE.
have [_ -> _] := sharesE a; have [_ -> _] := left_sharesE a.
by rewrite addrC subrK.
Qed.
Let ordered_share u x hand : ordered u hand -> 0 <= x -> ordered u (scaled x hand).
Proof.
move=> ok; rewrite le_eqVlt => /orP[/eqP<-|x0]; first by rewrite scaled_none.
by rewrite scaled_by_scaled // ordered_scaled.
Qed.
Lemma evenly_ordered a : ordered 0 (evenly a).
Proof.
rewrite evenlyE ordered_cat ordered_share //=.
apply: ordered_lower (ordered_share rest_ok (of_rest0 a)).
have [x0|x0] := lerP (of_first a) 0; first by rewrite scaled_none //; apply: ordered_upper first_ok.
by rewrite scaled_by_scaled // upper_scaled.
Qed.

(* What the smallest scores of the prefix are worth, those of its tokens are. *)
Lemma evenly_smallest (worth : R) a : 0 <= worth ->
  (forall t, 0 <= t <= most_here / K%:R -> worth * t <= value K (cut s t).1) ->
  forall t, 0 <= t <= most_of a / K%:R -> worth * t <= value K (cut (evenly a) t).1.
Proof.
move=> worth0 prefix_worth t /andP[t0 t_most].
have [t_le0|t_pos] := lerP t 0.
  have -> : t = 0 by apply/eqP; rewrite eq_le t_le0.
  by rewrite cut_nothing // mulr0 /value /= lexx.
have best_pos : 0 < best.
  rewrite (lt_le_trans t_pos) // (le_trans t_most) // /best (bigD1 a) //= ler_addl.
  by apply: sumr_ge0 => b _; apply: wanted0.
have x_pos : 0 < of_first a.
  rewrite /of_first /ratio_or_one /= leNgt best_pos /= divr_gt0 //.
  exact: lt_le_trans t_most.
have wantedE : of_first a * best = wanted a.
  by have [_ first_m _] := cut_ok; rewrite -first_m; have [] := sharesE a.
have t_best : t / of_first a <= best by rewrite ler_pdivr_mulr // mulrC wantedE.
rewrite evenlyE cut_cat; last first.
  by rewrite reachE measured_share // -reachE; have [_ -> _] := sharesE a.
rewrite scaled_by_scaled // cut_scaled // valueE measured_scaled -valueE.
have tE : t = of_first a * (t / of_first a) by rewrite mulrC divfK ?gt_eqF.
rewrite cut_cut // [t in X in X <= _]tE mulrCA ler_wpmul2l // prefix_worth //.
by rewrite divr_ge0 //= (le_trans t_best).
Qed.
End Step.

(* ------------------------------------------------------------------------------ the whole rule *)
Section Theorems.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Variable count : nat.
Hypothesis some : (0 < count)%N.
Local Notation K := count.
Local Notation text := (@text (field_numbers R) T).
Local Notation most := (@most (field_numbers R) T p q K).
Local Notation certain := (certain_share R K).
Implicit Types (z x : seq T) (a : T) (n : nat).

Let p0 z a : 0 <= p z a. Proof. by case: (p_model z). Qed.
Let q0 z a : 0 <= q z a. Proof. by case: (q_model z). Qed.
Let K_pos : 0 < K%:R :> R. Proof. by rewrite ltr0n. Qed.
Let share0 : 0 <= certain. Proof. by case/andP: (certain_share01 R some). Qed.

(* The most that can be accepted of za is M(za) = min(M(z) p(a|z), K q(za)), and M() = 1. *)
Lemma most_rcons z a :
  most (rcons z a) = Num.min (most z * p z a) (K%:R * text q [::] (rcons z a)).
Proof.
have after_ y b d : most_after (N := field_numbers R) p q K y (rcons z a) b d =
    Num.min (most_after (N := field_numbers R) p q K y z b d * p (y ++ z) a)
      (K%:R * (d * text q y (rcons z a))).
  elim: z y b d => [|c z IH] y b d /=; first by rewrite leastE naturalE cats0 mulr1.
  by rewrite IH cat_rcons -mulrA.
by rewrite /most after_ mul1r.
Qed.
Lemma most_ge0 z : 0 <= most z.
Proof.
elim/last_ind: z => [|z a IH]; first exact: ler01.
by rewrite most_rcons le_minr !mulr_ge0 ?(ltW K_pos) ?text_ge0 ?p0 //.
Qed.
Lemma most_text z : most z <= text p [::] z.
Proof.
elim/last_ind: z => [|z a IH]; first exact: lexx.
by rewrite most_rcons [X in _ <= X]text_rcons cat0s le_minl ler_wpmul2r ?p0.
Qed.

Section Selected.
(* No more may be passed on than is owed, and no less than what the drafts allow of it. *)
Variable passed_on : R -> R -> R.
Hypothesis passed_on0 : forall owed allowed, 0 <= owed -> 0 <= allowed ->
  0 <= passed_on owed allowed.
Hypothesis passed_on_allowed : forall owed allowed,
  Num.min (passed_on owed allowed) allowed = Num.min owed allowed.
Local Notation evenly := (@evenly (field_numbers R) T vocabulary K).
Local Notation even_known_after :=
  (@even_known_after (field_numbers R) T vocabulary p q K passed_on).
Local Notation even_known := (@even_known (field_numbers R) T vocabulary p q K passed_on).
Local Notation even_scores := (@even_scores (field_numbers R) T vocabulary p q K passed_on).
Local Notation evened := (@evened (field_numbers R) T vocabulary p q K passed_on).
Local Notation even_selected := (@even_selected (field_numbers R) T vocabulary p q K passed_on).

Let owed z : R := (even_known z).2.

Lemma even_known_rcons z a : even_known (rcons z a) =
  (evenly (even_scores z) (owed z) (p z) (q z) a,
   passed_on (owed z * p z a) (K%:R * ((reach (even_scores z) : R) * q z a))).
Proof.
rewrite /owed /even_scores /even_known.
have after_ y s v : even_known_after y (rcons z a) s v = let st := even_known_after y z s v in
    (evenly st.1 st.2 (p (y ++ z)) (q (y ++ z)) a,
     passed_on (st.2 * p (y ++ z) a) (K%:R * ((reach st.1 : R) * q (y ++ z) a))).
  elim: z y s v => [|b z IH] y s v /=; first by rewrite cats0 naturalE.
  by rewrite IH cat_rcons.
exact: after_.
Qed.
Lemma even_scores_rcons z a :
  even_scores (rcons z a) = evenly (even_scores z) (owed z) (p z) (q z) a.
Proof. by rewrite {1}/even_scores even_known_rcons. Qed.
Lemma even_known_ok z : ordered 0 (even_scores z) /\ 0 <= owed z.
Proof.
elim/last_ind: z => [|z a [ok v0]].
  by rewrite /even_scores /owed /even_known /= /proper /= !lexx !ltr01 !ler01.
have r0 := proper_reach (ordered_proper ok).
split; first by rewrite even_scores_rcons; apply: evenly_ordered.
by rewrite /owed even_known_rcons /= passed_on0 ?mulr_ge0 // ltW.
Qed.

(* The scores are shared out fairly. *)
Lemma even_scores_root : even_scores [::] = uniform (field_numbers R). Proof. by []. Qed.
Lemma even_scores_proper z : all (@proper R) (even_scores z).
Proof. by have [ok _] := even_known_ok z; apply: ordered_proper ok. Qed.
Lemma even_scores_shared G z : fair G ->
  \sum_a measured G (even_scores (rcons z a)) = measured G (even_scores z).
Proof.
move=> G_fair; have [ok v0] := even_known_ok z; under eq_bigr do rewrite even_scores_rcons.
exact: evenly_shared.
Qed.
Lemma even_scores_drafted z a :
  (reach (even_scores (rcons z a)) : R) = (reach (even_scores z) : R) * q z a.
Proof.
have [ok v0] := even_known_ok z; rewrite even_scores_rcons.
exact: evenly_reach.
Qed.
(* The rule is fair: the scores of all are those of the root, the tokens after a prefix share its
   scores out among them, and each has the mass of its draft. *)
Theorem even_fair : [/\ even_scores [::] = uniform (field_numbers R),
    forall z, all (@proper R) (even_scores z),
    forall G z, fair G ->
      \sum_a measured G (even_scores (rcons z a)) = measured G (even_scores z)
  & forall z a, (reach (even_scores (rcons z a)) : R) = (reach (even_scores z) : R) * q z a].
Proof.
split=> //; [exact: even_scores_proper|exact: even_scores_shared|exact: even_scores_drafted].
Qed.
Lemma even_reach z : reach (even_scores z) = text q [::] z.
Proof.
elim/last_ind: z => [|z a IH]; first by rewrite /reach /= addr0.
by rewrite even_scores_drafted IH text_rcons.
Qed.

(* What the drafts allow of what is owed. *)
Definition allowed z : R := Num.min (owed z) (K%:R * text q [::] z).
Lemma allowed_rcons z a :
  allowed (rcons z a) = Num.min (owed z * p z a) (K%:R * text q [::] (rcons z a)).
Proof.
rewrite /allowed {1}/owed even_known_rcons /= even_reach text_rcons.
exact: passed_on_allowed.
Qed.
Lemma allowed_ge0 z : 0 <= allowed z.
Proof.
by have [_ v0] := even_known_ok z; rewrite le_minr v0 mulr_ge0 ?(ltW K_pos) ?text_ge0.
Qed.

Lemma smallest_of_all t : 0 <= t -> t <= 1 ->
  value K (cut (N := field_numbers R) (uniform (field_numbers R)) t).1 = 1 - (1 - t) ^+ K.
Proof.
move=> t0 t1; have [t_le0|t_pos] := lerP t 0.
  have -> : t = 0 by apply/eqP; rewrite eq_le t_le0.
  by rewrite cut_nothing // /value /= subr0 expr1n subrr.
rewrite [cut _ _]/= leNgt t_pos t1 /= subr0 divr1 mul1r add0r valueE /measured big_seq1 /=.
by rewrite -[t in t * _]subr0 smallest_amongE subr0 expr1n.
Qed.
(* The smallest scores of x, of any mass t up to M(x)/K, are those of the selected path with a
   probability of at least c K t, where M(x) is the smaller of what is owed to x and K q(x), and c
   is 1 - (1 - 1/K)^K. *)
Theorem even_smallest z t : 0 <= t <= allowed z / K%:R ->
  certain * K%:R * t <= value K (cut (N := field_numbers R) (even_scores z) t).1.
Proof.
elim/last_ind: z t => [|z a IH] t.
  move=> /andP[t0 tM]; have tK : t <= K%:R^-1.
    apply: le_trans tM _; rewrite -[X in _ <= X]mul1r ler_wpmul2r ?invr_ge0 ?(ltW K_pos) //.
    by rewrite /allowed le_minl lexx.
  have t1 : t <= 1 by rewrite (le_trans tK) // invf_le1 // ler1n.
  by rewrite even_scores_root smallest_of_all // -mulrA certain_at_root.
have [ok v0] := even_known_ok z; rewrite allowed_rcons text_rcons cat0s -even_reach => t_ok.
rewrite even_scores_rcons; apply: evenly_smallest t_ok => //; first by rewrite mulr_ge0 // ltW.
by move=> u; rewrite /most_here even_reach; exact: IH.
Qed.
(* All scores of x. *)
Lemma even_value z : certain * allowed z <= value K (even_scores z).
Proof.
have [ok v0] := even_known_ok z; have M0 := allowed_ge0 z.
have t0 : 0 <= allowed z / K%:R by rewrite divr_ge0 // ltW.
have t_in : 0 <= allowed z / K%:R <= allowed z / K%:R by rewrite t0 lexx.
apply: le_trans (value_cut K ok t0 _); last first.
  by rewrite even_reach ler_pdivr_mulr // [_ * K%:R]mulrC le_minl lexx orbT.
by apply: le_trans (even_smallest t_in); rewrite -mulrA [K%:R * _]mulrC divfK ?gt_eqF.
Qed.

(* The law of the path that the rule selects is that of a model, whatever is passed on as owed. *)
Theorem evened_model : is_model evened.
Proof.
move=> z; apply: (completed_row complete) (q_model z) => a.
exact: value_ge0 (even_scores_proper _).
Qed.
Lemma evened_next z a : evened z a * value K (even_scores z) = value K (even_scores (rcons z a)).
Proof.
have total_z : \sum_b (value K (even_scores (rcons z b)) : R) = value K (even_scores z).
  under eq_bigr do rewrite valueE.
  by rewrite even_scores_shared ?valueE //; apply: fair_smallest.
rewrite -total_z (completedE complete) // => b.
exact: value_ge0 (even_scores_proper _).
Qed.
(* The path that the rule selects has the law of a path of as many tokens drawn from that model. *)
Theorem selected_evened n : selects vocabulary evened n (even_selected n).
Proof.
exact: (selected_fairly complete q_model some even_scores_root even_scores_proper
  even_scores_shared even_scores_drafted evened_model evened_next n).
Qed.
(* The rule's selection of a path is a law. *)
Theorem selected_evened_law n : is_law (even_selected n).
Proof.
exact: (selected_fairly_law complete q_model some even_scores_root even_scores_proper
  even_scores_drafted n).
Qed.
Lemma evened_text z : text evened [::] z = value K (even_scores z).
Proof.
have text_value x y : text evened y x * value K (even_scores y) = value K (even_scores (y ++ x)).
  elim: x y => [|a x IH] y /=; first by rewrite cats0 mul1r.
  by rewrite mulrAC evened_next mulrC IH cat_rcons.
rewrite -[LHS]mulr1 -[RHS](text_value z [::]); congr (_ * _).
rewrite even_scores_root valueE /measured /uniform big_seq1 /= mul1r.
by have := smallest_amongE K (0 : R) 1; rewrite subr0 mul1r subrr expr1n expr0n gtn_eqF // subr0.
Qed.
(* The selected path starts with z with the probability that the smallest of K scores is one of
   those of z, and that is at least c M(z), where M(z) is the smaller of what is owed to z and
   K q(z), and c is 1 - (1 - 1/K)^K. *)
Theorem selected_evened_starts n z : (size z <= n)%N ->
  probability (prefix z) (even_selected n) = value K (even_scores z) /\
  certain * allowed z <= probability (prefix z) (even_selected n).
Proof.
move=> zn; have same : probability (prefix z) (even_selected n) = value K (even_scores z).
  rewrite /probability selected_evened -/(probability _ _) (path_prefix complete evened_model) zn.
  exact: evened_text.
by split=> //; rewrite same; apply: even_value.
Qed.
Lemma even_selected_path n : greedy_block.path_of evened n (even_selected n).
Proof.
split=> [|x]; first exact: selected_evened_law.
rewrite /probability selected_evened -/(probability _ _).
exact: (greedy_block.path_law complete evened_model).
Qed.
End Selected.

(* Verified as a block. *)
Section Block.
Local Notation least := (@least (field_numbers R)).
Local Notation even_known := (@even_known (field_numbers R) T vocabulary p q K least).
Local Notation evened := (@evened (field_numbers R) T vocabulary p q K least).
Local Notation even_selected := (@even_selected (field_numbers R) T vocabulary p q K least).
Local Notation even_multipath_block :=
  (@even_multipath_block (field_numbers R) T vocabulary p q K).

Let least0 (a b : R) : 0 <= a -> 0 <= b -> 0 <= least a b. Proof. exact: least_ge0. Qed.
Lemma least_allowed (a b : R) : Num.min (least a b) b = Num.min a b.
Proof. by rewrite leastE -minA minxx. Qed.
Let rows_model : is_model evened. Proof. exact: evened_model. Qed.
Let has_law n : selects vocabulary evened n (even_selected n).
Proof. by apply: selected_evened. Qed.

(* What the rule takes for owed to z is M(z). *)
Theorem even_known_most z : (even_known z).2 = most z.
Proof.
elim/last_ind: z => [//|z a IH]; rewrite even_known_rcons /= leastE IH most_rcons.
by rewrite (even_reach least0) text_rcons.
Qed.
Lemma allowed_most z : allowed least z = most z.
Proof.
rewrite /allowed even_known_most; apply/min_idPl; elim/last_ind: z => [|z a _].
  by rewrite /= mulr1 ler1n.
by rewrite most_rcons le_minl lexx orbT.
Qed.
(* Block verification of the path that the rule selects has the outcome of block verification of a
   path drawn from the law Q' of that path. *)
Theorem even_multipath_block_outcome n f :
  expected f (even_multipath_block n) = expected f (block vocabulary p evened n).
Proof. exact: selected_block (has_law n). Qed.
(* The outcome of block verification of the path that the rule selects is a law. *)
Theorem even_multipath_block_law n : is_law (even_multipath_block n).
Proof.
apply: (selected_block_law complete p_model rows_model) (has_law n).
by case: (selected_evened_law least0 n).
Qed.
(* With block verification of the path that the rule selects, the text has the target's law at every
   horizon. *)
Theorem even_multipath_block_lossless n : lossless p (even_multipath_block n).
Proof. exact: (selected_block_lossless complete p_model rows_model (has_law n)). Qed.
(* Block verification of the path that the rule selects accepts at least x with block verification's
   probability, with the law Q' of that path in place of q. *)
Theorem even_multipath_block_accepts n x : accepts x (even_multipath_block n) =
  if (size x <= n)%N then kept_mass (N := field_numbers R) p evened x [::] 1 else 0.
Proof.
by rewrite -(block_accepts complete p_model rows_model); exact: even_multipath_block_outcome.
Qed.
(* Block verification of the path that the rule selects accepts every x of at most n tokens with a
   probability of at least c M(x), c being 1 - (1 - 1/K)^K. *)
Theorem even_multipath_block_keeps n x : (size x <= n)%N ->
  certain * most x <= accepts x (even_multipath_block n).
Proof.
move=> xn; rewrite even_multipath_block_accepts xn.
elim/last_ind: x {xn} => [|x a IH].
  by rewrite /= mulr1; case/andP: (certain_share01 R some).
rewrite (kept_rcons p_model rows_model) ?ler01 // cat0s le_minr; apply/andP; split.
  apply: le_trans (_ : certain * most x * p x a <= _); last exact: ler_wpmul2r.
  by rewrite -mulrA ler_wpmul2l // most_rcons le_minl lexx.
by rewrite (evened_text least0) -allowed_most even_value // => *; apply: least_allowed.
Qed.
(* Block verification of the path that the rule selects accepts on average at least c times the sum
   of M(x) over all texts x of 1 to n tokens, c being 1 - (1 - 1/K)^K. *)
Theorem even_multipath_block_length n :
  certain * (\sum_(i < n) \sum_(x : i.+1.-tuple T) most x)
  <= expected (fun e => (size e.1)%:R) (even_multipath_block n).
Proof.
rewrite even_multipath_block_outcome (block_length complete p_model rows_model) mulr_sumr.
apply: ler_sum => i _; rewrite mulr_sumr; apply: ler_sum => x _.
have xn : (size x <= n)%N by rewrite size_tuple ltn_ord.
apply: le_trans (even_multipath_block_keeps xn) _.
by rewrite even_multipath_block_accepts xn.
Qed.
End Block.

(* Verified greedily. *)
Section Greedy.
Local Notation all_of_it := (@all_of_it (field_numbers R)).
Local Notation even_known := (@even_known (field_numbers R) T vocabulary p q K all_of_it).
Local Notation evened := (@evened (field_numbers R) T vocabulary p q K all_of_it).
Local Notation even_selected := (@even_selected (field_numbers R) T vocabulary p q K all_of_it).
Local Notation even_greedy_block := (@even_greedy_block (field_numbers R) T vocabulary p q K).
Local Notation modified := (@greedy_block.modified (field_numbers R) T vocabulary p evened).

Let all0 (a b : R) : 0 <= a -> 0 <= b -> 0 <= (all_of_it a b : R). Proof. by []. Qed.
Let rows_model : is_model evened. Proof. exact: evened_model. Qed.
Let has_law n : greedy_block.path_of evened n (even_selected n).
Proof. by apply: even_selected_path. Qed.

(* What the rule takes for owed to z is the probability that the target writes z. *)
Theorem even_known_text z : (even_known z).2 = text p [::] z.
Proof. by elim/last_ind: z => [//|z a IH]; rewrite even_known_rcons text_rcons /= -IH. Qed.
(* The most that is allowed of z is what the target owes, or what the drafts have. *)
Lemma allowed_text z : allowed all_of_it z = Num.min (text p [::] z) (K%:R * text q [::] z).
Proof. by rewrite /allowed even_known_text. Qed.
(* The outcome of greedy block verification of the path that the rule selects is a law. *)
Theorem even_greedy_block_law n : is_law (even_greedy_block n).
Proof. exact: (greedy_block.greedy_block_law complete p_model rows_model (has_law n)). Qed.
(* With greedy block verification of the path that the rule selects, the text of one iteration,
   continued by the modified target, has the target's law at every horizon. *)
Theorem even_greedy_block_lossless n t :
  writes (modified n) t (even_greedy_block n) = text p [::] t.
Proof.
exact: (greedy_block.greedy_block_lossless complete p_model rows_model t (has_law n)).
Qed.
(* Greedy block verification of the path that the rule selects accepts every x of at most n tokens
   with a probability of at least c min(p(x), K q(x)), c being 1 - (1 - 1/K)^K. *)
Theorem even_greedy_block_keeps n x : (size x <= n)%N ->
  certain * Num.min (text p [::] x) (K%:R * text q [::] x) <= accepts x (even_greedy_block n).
Proof.
move=> xn; rewrite (greedy_block.accepts_greedy_block complete p_model rows_model x (has_law n)).
rewrite /greedy_block.shared xn (evened_text all0) le_minr -allowed_text even_value // andbT.
have /andP[_ c1] := certain_share01 R some.
apply: le_trans (_ : allowed all_of_it x <= _); last by rewrite allowed_text le_minl lexx.
by rewrite -[X in _ <= X]mul1r ler_wpmul2r // allowed_ge0.
Qed.
(* Greedy block verification of the path that the rule selects accepts on average at least c times
   the sum of min(p(x), K q(x)) over all texts x of 1 to n tokens, c being 1 - (1 - 1/K)^K. *)
Theorem even_greedy_block_length n :
  certain * (\sum_(i < n) \sum_(x : i.+1.-tuple T)
    Num.min (text p [::] x) (K%:R * text q [::] x))
  <= expected (fun e => (size e.1)%:R) (even_greedy_block n).
Proof.
rewrite (greedy_block.expected_length complete p_model rows_model (has_law n)) mulr_sumr.
apply: ler_sum => i _; rewrite mulr_sumr; apply: ler_sum => x _.
have xn : (size x <= n)%N by rewrite size_tuple ltn_ord.
apply: le_trans (even_greedy_block_keeps xn) _.
rewrite (greedy_block.accepts_greedy_block complete p_model rows_model x (has_law n)).
by rewrite /greedy_block.shared xn.
Qed.
End Greedy.
End Theorems.

(* ------------------------------------------------------------- what no verifier can do better *)
Section Verifiers.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Variables p q : model.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Variables (count n : nat).
Local Notation K := count.
Local Notation text := (@text (field_numbers R) T).
Local Notation path := (@path (field_numbers R) T vocabulary q).
Local Notation drafts := (@off_the_path.drafts R T vocabulary K n q).
Local Notation most := (@most (field_numbers R) T p q K).
Implicit Types (x : seq T) (a : T) (xs : seq (seq T)).

(* Any lossless verifier of K independent paths, as the law of the paths with what it emits and the
   target that it leaves: what it accepts lies on one of the paths. *)
Definition verifies_drafts (m : law (seq (seq T) * (emission T * model))) :=
  off_the_path.verifies drafts (fun xs u => has (prefix u) xs) p m.
(* It leaves the target as it is. *)
Definition keeps_target (m : law (seq (seq T) * (emission T * model))) :=
  forall o, possible m o -> o.2.2 = p.

Let none_starts x k : (size x <= n)%N ->
  probability (fun xs => ~~ has (prefix x) xs) (independent (path n [::]) k)
  = (1 - text q [::] x) ^+ k.
Proof.
move=> xn; elim: k => [|k IH]; first by rewrite /probability expected_ret.
rewrite /probability expected_independent exprS -IH.
have -> : 1 - text q [::] x = probability (fun y => ~~ prefix x y) (path n [::]).
  have := path_prefix complete q_model n x [::]; rewrite xn => <-.
  rewrite -[X in X - _](proj2 (law_path complete q_model n [::])) /probability -expected_sub.
  by apply: eq_expected => y; case: (prefix x y); rewrite ?subrr ?subr0.
rewrite /probability -expected_mulr; apply: eq_expected => y.
rewrite -expected_mull; apply: eq_expected => xs /=.
by rewrite negb_or; case: (prefix x y); rewrite ?mul0r ?mul1r.
Qed.
(* Any of K drafted paths starts with x with the probability 1 - (1 - q(x))^K. *)
Theorem any_draft_starts x : probability (has (prefix x)) drafts
  = if (size x <= n)%N then 1 - (1 - text q [::] x) ^+ K else 0.
Proof.
have drafts_law := off_the_path.law_drafts complete K n q_model.
case: ifP => [xn|/negbT]; last rewrite -ltnNge => nx.
  rewrite -(none_starts K xn) -[X in X - _](proj2 drafts_law) /probability -expected_sub.
  by apply: eq_expected => xs; case: (has _ xs); rewrite ?subr0 ?subrr.
rewrite -[RHS](expected_zero drafts); apply: eq_expected_possible => xs.
case/possible_independent=> _ /(_ (fun y => ~~ prefix x y)) none; apply/eqP.
rewrite pnatr_eq0 eqb0 -all_predC; apply: none => y /size_possible_path y_size.
by apply: contraL nx => /size_prefix; rewrite y_size -leqNgt.
Qed.

Section Accepted.
Variable m : law (seq (seq T) * (emission T * model)).
Hypothesis m_verifies : verifies_drafts m.

Lemma accepted_drafted x : probability (fun o => prefix x o.2.1.1) m
  <= if (size x <= n)%N then K%:R * text q [::] x else 0.
Proof.
have [[m0 _] given on_path _ _] := m_verifies.
apply: le_trans (_ : probability (has (prefix x)) drafts <= _).
  rewrite /probability -given; apply: expected_mono_possible => // o /on_path/hasP[y y_in on_y].
  case: (boolP (prefix x o.2.1.1)) => [starts|_]; last exact: ler0n.
  have -> // : has (prefix x) o.1.
  by apply/hasP; exists y => //; apply: prefix_trans starts on_y.
rewrite any_draft_starts; case: ifP => // xn; rewrite power_at_most // text_ge0 //=.
have <- : probability (prefix x) (path n [::]) = text q [::] x.
  by rewrite (path_prefix complete q_model) xn.
rewrite -[X in _ <= X](proj2 (law_path complete q_model n [::])).
apply: expected_mono; first by case: (law_path complete q_model n [::]).
by move=> y; rewrite lern1 leq_b1.
Qed.
Lemma accepted_size o : possible m o -> (size o.2.1.1 <= n)%N.
Proof.
move=> can; have [_ _ on_path _ _] := m_verifies.
have sized : all (fun y => size y == n) o.1.
  apply: (off_the_path.given_holds m_verifies _ can) => xs.
  move=> /(off_the_path.possible_drafts complete q_model)[_ ok].
  by apply/allP => y /ok[->].
have [y y_in on_y] := hasP (on_path o can).
by rewrite -(eqP (allP sized y y_in)); apply: size_prefix.
Qed.
Lemma accepted_longest (bound : seq T -> R) :
  (forall x, (size x <= n)%N -> probability (fun o => prefix x o.2.1.1) m <= bound x) ->
  off_the_path.length m <= \sum_(i < n) \sum_(x : i.+1.-tuple T) bound x.
Proof.
move=> bounded; rewrite /off_the_path.length.
rewrite (eq_expected_possible (g := fun o => \sum_(i < n) \sum_(x : i.+1.-tuple T)
  (prefix x o.2.1.1)%:R)) => [|o /accepted_size]; last exact: size_prefixes.
rewrite expected_sum; apply: ler_sum => i _; rewrite expected_sum; apply: ler_sum => x _.
by apply: bounded; rewrite size_tuple ltn_ord.
Qed.

(* No lossless verifier of K independent paths of n tokens, whatever it knows and leaves, accepts a
   text x with a probability above min(p(x), K q(x)), and none accepts a longer text. *)
Theorem leaving_at_most x : probability (fun o => prefix x o.2.1.1) m
  <= if (size x <= n)%N then Num.min (text p [::] x) (K%:R * text q [::] x) else 0.
Proof.
have [m_law _ _ models ok] := m_verifies; have := accepted_drafted x.
case: ifP => // xn allowed; rewrite le_minr allowed andbT -(ok x) expected_bind.
apply: expected_mono_possible => [|o /models o_model]; first by case: m_law.
rewrite expected_ret /begins prefix_rconsE; case: (prefix x o.2.1.1) => //=.
case: ifP => _; first exact: ler01.
by case: ifP => // _; apply: text_ge0.
Qed.
(* No lossless verifier of K independent paths of n tokens, whatever it knows and leaves, accepts
   more tokens on average than the sum of min(p(x), K q(x)) over all texts x of 1 to n tokens. *)
Theorem leaving_length : off_the_path.length m
  <= \sum_(i < n) \sum_(x : i.+1.-tuple T) Num.min (text p [::] x) (K%:R * text q [::] x).
Proof.
apply: (accepted_longest (bound := fun x => Num.min (text p [::] x) (K%:R * text q [::] x))).
by move=> x xn; have := leaving_at_most x; rewrite xn.
Qed.

(* No lossless verifier of K independent paths of n tokens that leaves the target as it is, whatever
   it knows, accepts a text x with a probability above M(x), where M() = 1 and
   M(xa) = min(M(x) p(a|x), K q(xa)), and none accepts a longer text. *)
Theorem keeping_at_most x : keeps_target m -> probability (fun o => prefix x o.2.1.1) m
  <= if (size x <= n)%N then most x else 0.
Proof.
move=> kept; have [m_law _ _ _ ok] := m_verifies.
pose emitted := o <- m ;; ret (field_numbers R) o.2.1.
have emitted_law : is_law emitted by apply: law_bind => // o; apply: law_ret.
have same y : probability (fun o => prefix y o.2.1.1) m = accepts y emitted.
  by rewrite /accepts /probability expected_bind; apply: eq_expected => o; rewrite expected_ret.
have lossless_emitted : lossless p emitted.
  move=> t; rewrite -(ok t) /writes !expected_bind; apply: eq_expected_possible => o /kept left.
  by rewrite !expected_ret left.
have balanced_emitted := proj1 (lossless_balanced p emitted_law) lossless_emitted.
elim/last_ind: x => [|x a IH].
  rewrite same -[X in _ <= X](proj2 emitted_law).
  by apply: expected_mono => [|e]; [case: emitted_law|rewrite lern1 leq_b1].
have := accepted_drafted (rcons x a); rewrite size_rcons; case: ifP => // xn allowed.
rewrite most_rcons // le_minr allowed andbT; move: IH; rewrite (ltnW xn) => IH.
apply: le_trans (_ : accepts x emitted * p x a <= _); last first.
  by rewrite -same ler_wpmul2r //; case: (p_model x).
rewrite same -balanced_emitted ler_addl; apply: expected_ge0 => [|e]; last exact: ler0n.
by case: emitted_law.
Qed.
(* No lossless verifier of K independent paths of n tokens that leaves the target as it is, whatever
   it knows, accepts more tokens on average than the sum of M(x) over all texts x of 1 to n
   tokens. *)
Theorem keeping_length : keeps_target m ->
  off_the_path.length m <= \sum_(i < n) \sum_(x : i.+1.-tuple T) most x.
Proof.
move=> kept; apply: (accepted_longest (bound := fun x => most x)) => x xn.
by have := keeping_at_most x kept; rewrite xn.
Qed.

Hypothesis some : (0 < count)%N.

(* Block verification of the path that the rule selects accepts at least 1 - (1 - 1/K)^K times as
   many tokens on average as any lossless verifier of the K paths that leaves the target as it is,
   whatever it knows. *)
Theorem even_multipath_block_share : keeps_target m ->
  certain_share R K * off_the_path.length m <= expected (fun e => (size e.1)%:R)
    (even_multipath_block (N := field_numbers R) vocabulary p q K n).
Proof.
move=> kept; apply: le_trans (even_multipath_block_length complete p_model q_model some n).
by rewrite ler_wpmul2l ?keeping_length //; case/andP: (certain_share01 R some).
Qed.
(* Greedy block verification of the path that the rule selects accepts at least 1 - (1 - 1/K)^K
   times as many tokens on average as any lossless verifier of the K paths, whatever it knows and
   leaves. *)
Theorem even_greedy_block_share :
  certain_share R K * off_the_path.length m <= expected (fun e => (size e.1)%:R)
    (even_greedy_block (N := field_numbers R) vocabulary p q K n).
Proof.
apply: le_trans (even_greedy_block_length complete p_model q_model some n).
by rewrite ler_wpmul2l ?leaving_length //; case/andP: (certain_share01 R some).
Qed.
End Accepted.
End Verifiers.

(* ------------------------------------------------------- the rule is such a verifier of its own *)
Section Rule.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variable count : nat.
Hypothesis some : (0 < count)%N.
Local Notation K := count.
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Implicit Types (p q : model) (x : seq T).

Section Selected.
Variable passed_on : R -> R -> R.
Hypothesis passed_on0 : forall owed allowed, 0 <= owed -> 0 <= allowed ->
  0 <= passed_on owed allowed.
Local Notation even_scores p q := (@even_scores (field_numbers R) T vocabulary p q K passed_on).

Definition by_evenly : off_the_path.rule R T := fun p q => select (even_scores p q).

(* The rule selects one of the drafted paths, whatever is passed on as owed. *)
Theorem by_evenly_selects n : off_the_path.is_selection vocabulary K n by_evenly.
Proof.
move=> p q xs p_ok q_ok can; split.
  exact: (law_select q_ok some (even_scores_root vocabulary p q K passed_on)
    (even_scores_proper complete p_ok q_ok some passed_on0)
    (even_scores_drafted complete p_ok q_ok some passed_on0) can).
move=> x; rewrite /by_evenly /select => x_can.
have [i [w i_in w0] {}x_can] := possible_bind x_can; rewrite (possible_ret x_can).
apply: mem_nth; move/List.in_map_iff: i_in => [j [[<- _] j_in]].
suff : j \in iota 0 (size xs) by rewrite mem_iota.
by elim: (iota _ _) j_in => [|k s IH] //= [->|/IH j_in]; rewrite in_cons ?eqxx ?j_in ?orbT.
Qed.
(* The law of the path that the rule selects is computable along the path, whatever is passed on as
   owed. *)
Theorem by_evenly_along n : off_the_path.along_the_path vocabulary K n by_evenly.
Proof.
move=> p q p' q' x p_ok q_ok p'_ok q'_ok size_x same.
have at_x r s : is_model r -> is_model s ->
    probability (pred1 x) (off_the_path.picked vocabulary K n by_evenly r s) =
    value K (even_scores r s x).
  move=> r_ok s_ok; have [_ ->] := even_selected_path complete r_ok s_ok some passed_on0 n.
  by rewrite size_x eqxx; apply: evened_text.
rewrite !at_x //; congr (value K _); apply: (congr1 fst).
by apply: even_known_along => y yx _; apply: same.
Qed.
End Selected.

Variables (p q : model) (n : nat).
Hypotheses (p_model : is_model p) (q_model : is_model q).
Local Notation drafts := (@off_the_path.drafts R T vocabulary K n q).
Local Notation least := (@least (field_numbers R)).
Local Notation all_of_it := (@all_of_it (field_numbers R)).

(* Block verification of the path that the rule selects, with all drafted paths. *)
Definition even_block_outcome : law (seq (seq T) * (emission T * model)) :=
  off_the_path.block_of_drafts vocabulary K n (by_evenly least) p q
    (evened (N := field_numbers R) vocabulary p q K least).
(* Block verification of the path that the rule selects is itself a lossless verifier of the K
   drafted paths that leaves the target as it is. *)
Theorem even_block_is_one :
  [/\ verifies_drafts vocabulary p q K n even_block_outcome, keeps_target p even_block_outcome
    & forall f, expected (fun o => f o.2.1) even_block_outcome =
        expected f (even_multipath_block (N := field_numbers R) vocabulary p q K n)].
Proof.
have least0 := @least_ge0 R; have selects := @by_evenly_selects _ least0 n.
have rows_model := evened_model complete p_model q_model some least0.
have has_law := selected_evened complete p_model q_model some least0 n.
split=> [|o|f].
- exact: off_the_path.drafts_verifies.
- rewrite /even_block_outcome /off_the_path.block_of_drafts => can.
  have [xs _ {}can] := possible_bind can; have [x _ {}can] := possible_bind can.
  by have [e _ {}can] := possible_bind can; rewrite (possible_ret can).
rewrite (even_multipath_block_outcome complete p_model q_model some).
exact: off_the_path.block_of_draftsE.
Qed.

(* Greedy block verification of the path that the rule selects, with all drafted paths. *)
Let greedy_rows := evened (N := field_numbers R) vocabulary p q K all_of_it.
Let left := greedy_block.modified (N := field_numbers R) vocabulary p greedy_rows n.
Definition even_greedy_outcome : law (seq (seq T) * (emission T * model)) :=
  xs <- drafts ;; x <- by_evenly all_of_it p q xs ;;
  e <- greedy_block.verify (N := field_numbers R) vocabulary p greedy_rows n x ;;
  ret _ (xs, (e, left)).
(* Greedy block verification of the path that the rule selects is itself a lossless verifier of the
   K drafted paths. *)
Theorem even_greedy_is_one : verifies_drafts vocabulary p q K n even_greedy_outcome /\
  forall f, expected (fun o => f o.2.1) even_greedy_outcome =
    expected f (even_greedy_block (N := field_numbers R) vocabulary p q K n).
Proof.
have all0 (a b : R) : 0 <= a -> 0 <= b -> 0 <= (all_of_it a b : field_numbers R) by [].
have selects := @by_evenly_selects _ all0 n.
have rows_model := evened_model complete p_model q_model some all0.
have left_model : is_model left by apply: greedy_block.modified_model.
have verify_one x :
    is_law (greedy_block.verify (N := field_numbers R) vocabulary p greedy_rows n x).
  apply: law_bind => [|u]; first exact: greedy_block.law_keep.
  by apply: law_bind => [|y]; [apply: law_draw_row|apply: law_ret].
have emits f : expected (fun o => f o.2) even_greedy_outcome = expected (fun e => f (e, left))
    (even_greedy_block (N := field_numbers R) vocabulary p q K n).
  rewrite [LHS]expected_bind [RHS]expected_bind [RHS]expected_bind; apply: eq_expected => xs.
  rewrite [LHS]expected_bind; apply: eq_expected => x.
  by rewrite expected_bind; apply: eq_expected => e; rewrite expected_ret.
have listed o : possible even_greedy_outcome o -> exists xs x e, [/\ possible drafts xs,
    possible (by_evenly all_of_it p q xs) x, possible (greedy_block.verify
      (N := field_numbers R) vocabulary p greedy_rows n x) e & o = (xs, (e, left))].
  rewrite /even_greedy_outcome => can; have [xs xs_can {}can] := possible_bind can.
  have [x x_can {}can] := possible_bind can; have [e e_can {}can] := possible_bind can.
  by exists xs, x, e; split=> //; apply: possible_ret can.
split=> [|f]; last exact: (emits (fun e => f e.1)).
split=> [|f|o|o|t].
- apply: law_bind_possible => [|xs xs_can]; first exact: off_the_path.law_drafts.
  have [select_law _] := selects p q xs p_model q_model xs_can.
  by apply: law_bind select_law _ => x; apply: law_bind => // e; apply: law_ret.
- rewrite [LHS]expected_bind; apply: eq_expected_possible => xs xs_can.
  have [[_ total1] _] := selects p q xs p_model q_model xs_can.
  rewrite expected_bind -[RHS]mul1r -total1 -expected_mulr; apply: eq_expected => x.
  rewrite expected_bind -(proj2 (verify_one x)) -expected_mulr; apply: eq_expected => e.
  by rewrite expected_ret mul1r.
- move=> /listed[xs [x [e [xs_can x_can [w e_in _] ->]]]]; apply/hasP; exists x.
    by have [_] := selects p q xs p_model q_model xs_can; apply.
  exact: greedy_block.verify_drafted e_in.
- by move=> /listed[xs [x [e [_ _ _ ->]]]].
rewrite -(even_greedy_block_lossless complete p_model q_model some n t) /writes.
rewrite -(emits (fun e => begins (N := field_numbers R) e.2 t e.1)) expected_bind.
by apply: eq_expected => o; rewrite expected_ret.
Qed.
End Rule.
