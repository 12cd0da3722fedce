(* SpecHub: the hub token is drafted with every other token, and gets the mass they cannot use.

   The hub is the most probable token of the draft; a pair (i, hub) has probability q(i), a pair
   (hub, i) has q(hub) q(i) / (1 - q(hub)). Proved for every vocabulary, target and draft: the token
   has the target's law, so every tree is lossless; the hub is in every pair, any other i with
   probability q(i) / (1 - q(hub)); a pair accepts the hub with probability p(hub), and any other i
   with min(p(i), q(i) / (1 - q(hub))), the most that any rule can do with these drafts (for all
   tokens together, and any verifier, see one_position.v). That the hub is the most probable token
   is not needed for this. arXiv 2411.05289. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent rejection greedy_draft.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T).
Local Open Scope number_scope.
Local Notation row := (row N T).
Implicit Types (p q : row) (hub token : T).

(* A pair, or a single token (width 1, or a draft that is sure of the hub). The reference refuses
   more than two. *)
Definition pair_with hub q (width : nat) : law N (seq T) :=
  first <- draw vocabulary q ;;
  if width == 1%N then ret _ [:: first] else
  if first != hub then ret _ [:: first; hub] else
  if any vocabulary (without q [:: hub]) then
    second <- draw vocabulary (without q [:: hub]) ;; ret _ [:: hub; second]
  else ret _ [:: hub].

(* A token owed this much is accepted where so much is offered. *)
Definition attempt token (owed offered : N) (otherwise : law N (T * bool)) : law N (T * bool) :=
  accepts <- coin (least 1 (owed / offered)) ;;
  if accepts then ret _ (token, true) else otherwise.

Section Pair.
Variables (hub : T) (p q : row).
Definition others : row := without p [:: hub].
Definition offered_second : row := without q [:: hub].
Definition offered_first : row := fun x => q hub * offered_second x / (1 - q hub).
Definition owed_first : row := excess others offered_second 1.
Definition owed_last : row := excess owed_first offered_first 1.
(* What the pairs with the hub first, and second, bring it when their other token is refused. *)
Definition hub_first : N := total vocabulary (excess offered_first owed_first 1).
Definition hub_second : N := total vocabulary (excess offered_second others 1).
Definition owed_hub : N := positive_part (p hub - hub_first).
Definition last_row : row := fun x =>
  if x == hub then positive_part (owed_hub - hub_second) else owed_last x.

Definition serve (first second : T) : law N (T * bool) :=
  let correction := token <- draw vocabulary last_row ;; ret _ (token, false) in
  if first != hub then
    attempt first (others first) (offered_second first) (attempt hub owed_hub hub_second correction)
  else
    attempt second (owed_first second) (offered_first second)
      (attempt hub (p hub) hub_first correction).
End Pair.

Definition draw_hub q (width : nat) : law N (seq T) :=
  if most_probable vocabulary q 1 is hub :: _ then pair_with hub q width else ret _ [::].
Definition spechub : rule N T := fun siblings p q =>
  if siblings is [:: first; second] then
    if most_probable vocabulary q 1 is hub :: _ then serve hub p q first second
    else accept_or_correct vocabulary siblings p q
  else accept_or_correct vocabulary siblings p q.
End Programs.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments coin : simpl never.
Local Arguments expected : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Theorems.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation draw := (@draw (field_numbers R) T vocabulary).
Local Notation attempt := (@attempt (field_numbers R) T).

(* A test of an offer: what is accepted is the least of both. *)
Lemma expected_attempt (f : T * bool -> R) token (owed offered : R) otherwise :
  0 <= owed -> 0 <= offered -> offered * expected f (attempt token owed offered otherwise) =
  Num.min offered owed * f (token, true) + (offered - Num.min offered owed) * expected f otherwise.
Proof.
move=> owed0 offered0; rewrite /attempt expected_bind expected_coin leastE expected_ret.
by rewrite mulrDr !mulrA mulrBr mulr1 kept_share.
Qed.
Lemma law_attempt token (owed offered : R) otherwise : 0 <= owed -> 0 <= offered ->
  (offered != 0 -> offered - Num.min offered owed != 0 -> is_law otherwise) -> offered != 0 ->
  is_law (attempt token owed offered otherwise).
Proof.
move=> owed0 offered0 ok some; rewrite /attempt leastE.
have c01 := min1_in01 owed0 offered0.
apply: law_bind_possible => [|[] /possible_coin /=]; [exact: law_coin|by move=> _; exact: law_ret|].
move=> refused; apply: ok => //; rewrite -(kept_share owed0 offered0) -{1}[offered]mulr1 -mulrBr.
by rewrite mulf_neq0.
Qed.

Section Pair.
Variables (p q : T -> R) (hub : T).
Hypotheses (p_row : is_row p) (q_row : is_row q).
Hypothesis unsure : q hub != 1.
Let p0 x : 0 <= p x. Proof. by case: p_row. Qed.
Let q0 x : 0 <= q x. Proof. by case: q_row. Qed.
Let p1 : \sum_x p x = 1. Proof. by case: p_row. Qed.
Let q1 : \sum_x q x = 1. Proof. by case: q_row. Qed.
Local Notation rn := (field_numbers R).

Let p' x : R := others (N := rn) hub p x.
Let d2 x : R := offered_second (N := rn) hub q x.
Let d1 x : R := offered_first (N := rn) hub q x.
Let o1 x : R := owed_first (N := rn) hub p q x.
Let o2 x : R := owed_last (N := rn) hub p q x.
Let H1 : R := hub_first (N := rn) vocabulary hub p q.
Let H2 : R := hub_second (N := rn) vocabulary hub p q.
Let oh : R := owed_hub (N := rn) vocabulary hub p q.
Let l x : R := last_row (N := rn) vocabulary hub p q x.
Let lh : R := Num.max (oh - H2) 0.

Let p'E x : p' x = if x == hub then 0 else p x. Proof. by rewrite /p' /others /without inE. Qed.
Let d2E x : d2 x = if x == hub then 0 else q x.
Proof. by rewrite /d2 /offered_second /without inE. Qed.
Let d1E x : d1 x = q hub * d2 x / (1 - q hub). Proof. by []. Qed.
Let o1E x : o1 x = Num.max (p' x - d2 x) 0.
Proof. by rewrite /o1 /owed_first excess1E. Qed.
Let o2E x : o2 x = Num.max (o1 x - d1 x) 0.
Proof. by rewrite /o2 /owed_last excess1E. Qed.
Let H1E : H1 = \sum_x Num.max (d1 x - o1 x) 0.
Proof. by rewrite /H1 /hub_first (totalE complete); apply: eq_bigr => x _; rewrite excess1E. Qed.
Let H2E : H2 = \sum_x Num.max (d2 x - p' x) 0.
Proof. by rewrite /H2 /hub_second (totalE complete); apply: eq_bigr => x _; rewrite excess1E. Qed.
Let ohE : oh = Num.max (p hub - H1) 0. Proof. exact: positive_partE. Qed.
Let lE x : l x = if x == hub then lh else o2 x.
Proof. by rewrite /l /last_row; case: ifP => // _; rewrite positive_partE. Qed.

Let q_lt : 0 < 1 - q hub.
Proof.
rewrite subr_gt0 lt_def eq_sym unsure -q1 (bigD1 hub) //= ler_addl.
by apply: sumr_ge0 => x _; apply: q0.
Qed.
Let p'0 x : 0 <= p' x. Proof. by rewrite p'E; case: ifP. Qed.
Let d20 x : 0 <= d2 x. Proof. by rewrite d2E; case: ifP. Qed.
Let d10 x : 0 <= d1 x. Proof. by rewrite d1E divr_ge0 ?mulr_ge0 // ltW. Qed.
Let o10 x : 0 <= o1 x. Proof. by rewrite o1E le_maxr lexx orbT. Qed.
Let o20 x : 0 <= o2 x. Proof. by rewrite o2E le_maxr lexx orbT. Qed.
Let H10 : 0 <= H1. Proof. by rewrite H1E sumr_ge0 // => x _; rewrite le_maxr lexx orbT. Qed.
Let H20 : 0 <= H2. Proof. by rewrite H2E sumr_ge0 // => x _; rewrite le_maxr lexx orbT. Qed.
Let oh0 : 0 <= oh. Proof. by rewrite ohE le_maxr lexx orbT. Qed.
Let lh0 : 0 <= lh. Proof. by rewrite /lh le_maxr lexx orbT. Qed.
Let l0 x : 0 <= l x. Proof. by rewrite lE; case: ifP. Qed.

(* The sums: of what the others are owed, and of what is offered. *)
Let sum_off (r : T -> R) : \sum_x (if x == hub then 0 else r x) = \sum_x r x - r hub.
Proof.
rewrite [in RHS](bigD1 hub) //= [RHS]addrAC subrr add0r [LHS](bigD1 hub) //= eqxx add0r.
by apply: eq_bigr => x /negbTE ->.
Qed.
Let sum_p' : \sum_x p' x = 1 - p hub.
Proof. by under eq_bigr do rewrite p'E; rewrite sum_off p1. Qed.
Let sum_d2 : \sum_x d2 x = 1 - q hub.
Proof. by under eq_bigr do rewrite d2E; rewrite sum_off q1. Qed.
Let sum_d1 : \sum_x d1 x = q hub.
Proof. by rewrite -mulr_suml -mulr_sumr sum_d2 mulfK // gt_eqF. Qed.

(* What the two passes accept at x, and what they accept at the hub. *)
Let taken x := Num.min (d2 x) (p' x) + Num.min (d1 x) (o1 x).
Let taken_hub := Num.min H2 oh + Num.min H1 (p hub).
Let left_over := (H2 - Num.min H2 oh) + (H1 - Num.min H1 (p hub)).

Let refused_mass (x y : R) : y - Num.min y x = Num.max (y - x) 0.
Proof. by rewrite -{1}(min_plus_excess y x) minC addrC addKr. Qed.
Let taken_owed x : taken x + o2 x = p' x.
Proof. by rewrite /taken o2E -addrA min_plus_excess o1E min_plus_excess. Qed.
Let taken_hub_owed : taken_hub + lh = p hub.
Proof. by rewrite /taken_hub /lh addrAC min_plus_excess ohE addrC min_plus_excess. Qed.
Let sum_taken : \sum_x taken x + H1 + H2 = 1.
Proof.
have cancel (a b c d : R) : (a + b) + (c - b) + (d - a) = d + c.
  by rewrite -[a + b + _]addrA [b + _]addrC subrK addrC addrA subrK.
transitivity (\sum_x (d2 x + d1 x)); last by rewrite big_split /= sum_d2 sum_d1 subrK.
rewrite H1E H2E -!big_split; apply: eq_bigr => x _.
by rewrite -!refused_mass; apply: cancel.
Qed.
Let sum_l : \sum_x l x = left_over.
Proof.
have spare (a b c d : R) : a + b + ((c - a) + (d - b)) = c + d.
  by rewrite addrACA [a + _]addrC subrK [b + _]addrC subrK.
have -> : \sum_x l x = \sum_x o2 x + lh.
  rewrite [LHS](bigD1 hub) //= lE eqxx addrC; congr (_ + _).
  rewrite [RHS](bigD1 hub) //= o2E o1E p'E d2E d1E d2E eqxx mulr0 mul0r !subr0 /=.
  rewrite !(max_idPl _) // add0r; apply: eq_bigr => x ne.
  by rewrite lE (negbTE ne).
apply: (@addrI _ (\sum_x taken x + taken_hub)).
transitivity (1 : R).
  rewrite addrACA taken_hub_owed -big_split -[RHS](subrK (p hub)) -sum_p'; congr (_ + _).
  by apply: eq_bigr => x _; apply: taken_owed.
rewrite -[LHS]sum_taken -[LHS]addrA -[RHS]addrA; congr (_ + _); rewrite [LHS]addrC.
exact/esym/spare.
Qed.

Let correction : law (T * bool) :=
  token <- draw (last_row (N := rn) vocabulary hub p q) ;; ret _ (token, false).
Let corrected (f : T * bool -> R) : left_over * expected f correction = \sum_x l x * f (x, false).
Proof.
rewrite expected_bind (expected_draw complete) -/l sum_l mulr_sumr.
apply: eq_bigr => x _; rewrite expected_ret mulrA; congr (_ * _).
have [none|some] := eqVneq left_over 0; last by rewrite mulrCA divff ?mulr1.
move/eqP: sum_l; rewrite none psumr_eq0 => [/allP all0|y _]; last exact: l0.
by rewrite mul0r; apply/esym/eqP/(implyP (all0 x _)); rewrite ?mem_index_enum.
Qed.
Let law_correction : left_over != 0 -> is_law correction.
Proof.
move=> some; apply: law_bind => [|x]; last exact: law_ret.
apply: (law_draw complete) => //; rewrite -/l sum_l lt_def some -sum_l.
by apply: sumr_ge0 => x _; apply: l0.
Qed.

Local Notation serve := (@serve rn T vocabulary hub p q).
Let serve_first x : x != hub -> serve x hub =
  attempt x (p' x) (d2 x) (attempt hub oh H2 correction).
Proof. by move=> ne; rewrite /serve ne. Qed.
Let serve_hub x : serve hub x =
  attempt x (o1 x) (d1 x) (attempt hub (p hub) H1 correction).
Proof. by rewrite /serve eqxx. Qed.

(* The pairs with the hub second, and first. *)
Let value_second f : \sum_x d2 x * expected f (serve x hub) =
  \sum_x Num.min (d2 x) (p' x) * f (x, true)
  + (Num.min H2 oh * f (hub, true) + (H2 - Num.min H2 oh) * expected f correction).
Proof.
rewrite -(expected_attempt f hub correction oh0 H20) {1}H2E mulr_suml -big_split.
apply: eq_bigr => x _; have [->|ne] := eqVneq x hub.
  by rewrite d2E p'E eqxx minxx subrr maxxx !mul0r; exact/esym/addr0.
by rewrite (serve_first ne) expected_attempt // refused_mass.
Qed.
Let value_first f : \sum_x d1 x * expected f (serve hub x) =
  \sum_x Num.min (d1 x) (o1 x) * f (x, true)
  + (Num.min H1 (p hub) * f (hub, true) + (H1 - Num.min H1 (p hub)) * expected f correction).
Proof.
rewrite -(expected_attempt f hub correction (p0 hub) H10) {1}H1E mulr_suml -big_split.
by apply: eq_bigr => x _; rewrite serve_hub expected_attempt // refused_mass.
Qed.
Let value f : \sum_x d2 x * expected f (serve x hub) + \sum_x d1 x * expected f (serve hub x) =
  \sum_x ((taken x + taken_hub * (x == hub)%:R) * f (x, true) + l x * f (x, false)).
Proof.
rewrite value_second value_first addrACA -big_split [X in _ + X]addrACA -!mulrDl corrected.
rewrite [RHS]big_split addrA; congr (_ + _).
under [RHS]eq_bigr => x _ do rewrite mulrDl.
rewrite [RHS]big_split; congr (_ + _).
  by apply: eq_bigr => x _; exact/esym/mulrDl.
rewrite -[LHS](sum_at (fun x => taken_hub * f (x, true)) hub).
by apply: eq_bigr => x _; rewrite mulrAC.
Qed.

Definition choose_pair (s : seq T) : law (T * bool) :=
  if s is [:: first; second] then serve first second
  else accept_or_correct vocabulary s p q : law (T * bool).
Local Notation pair_with := (@pair_with rn T vocabulary hub q).

Let some_other : any (N := rn) vocabulary (without (N := rn) q [:: hub]).
Proof.
apply: contraT => none; suff s0 : \sum_x d2 x = 0 by move: q_lt; rewrite -sum_d2 s0 ltxx.
apply: big1 => x _; apply/eqP; apply: contraNT none => some.
by apply/(anyP complete); [apply: without_ge0|exists x].
Qed.
Let expected_pair_with (F : seq T -> R) width : width != 1%N -> expected F (pair_with width) =
  \sum_x d2 x * F [:: x; hub] + \sum_x d1 x * F [:: hub; x].
Proof.
move=> /negbTE wide; rewrite /pair_with wide expected_bind (expected_draw_row complete) //.
rewrite (bigD1 hub) // addrC; congr (_ + _); last first.
  rewrite [LHS]big_mkcond; apply: eq_bigr => x _; rewrite d2E.
  by case: eqVneq => [_|ne] /=; [rewrite mul0r|rewrite expected_ret].
rewrite eqxx some_other expected_bind (expected_draw complete) mulr_sumr.
apply: eq_bigr => x _; rewrite expected_ret mulrA; congr (_ * _).
have -> : \sum_y without (N := rn) q [:: hub] y = 1 - q hub by exact: sum_d2.
by rewrite mulrA.
Qed.
Let expected_pair f width : width != 1%N ->
  expected (fun s => expected f (choose_pair s)) (pair_with width) =
  \sum_x ((taken x + taken_hub * (x == hub)%:R) * f (x, true) + l x * f (x, false)).
Proof. by move=> wide; rewrite expected_pair_with // -value. Qed.
Lemma pair_with_is_law width : is_law (pair_with width).
Proof.
rewrite /pair_with; apply: law_bind => [|x]; first exact: (law_draw_row complete).
case: ifP => _; first exact: law_ret.
case: ifP => _; first exact: law_ret.
rewrite some_other; apply: law_bind => [|y]; last exact: law_ret.
by apply: (law_draw complete) => [y|]; [exact: d20|rewrite -/d2 sum_d2].
Qed.
Let positive_sum (x y : R) : 0 <= y -> 0 <= x -> x != 0 -> x + y != 0.
Proof. by move=> y0 x0 nx; rewrite gt_eqF // ltr_paddr // lt_def nx. Qed.
Let left_ge0 (x y : R) : 0 <= x - Num.min x y.
Proof. by rewrite subr_ge0 le_minl lexx. Qed.
Let refused_some (r t : T -> R) y : r y - Num.min (r y) (t y) != 0 ->
  \sum_x Num.max (r x - t x) 0 != 0.
Proof.
rewrite refused_mass => ne; rewrite (bigD1 y) //; apply: positive_sum ne.
  by apply: sumr_ge0 => z _; rewrite le_maxr lexx orbT.
by rewrite le_maxr lexx orbT.
Qed.
Lemma choose_pair_is_law width s : width != 1%N -> possible (pair_with width) s ->
  is_law (choose_pair s).
Proof.
move=> /negbTE wide; rewrite /pair_with wide => can; have [x x_drawn {}can] := possible_bind can.
have hub_again : H2 != 0 -> is_law (attempt hub oh H2 correction).
  apply: law_attempt oh0 H20 _ => _ ne; apply: law_correction.
  exact: positive_sum (left_ge0 _ _) (left_ge0 _ _) ne.
have hub_next : H1 != 0 -> is_law (attempt hub (p hub) H1 correction).
  apply: law_attempt (p0 hub) H10 _ => _ ne; apply: law_correction.
  by rewrite /left_over addrC; apply: positive_sum (left_ge0 _ _) (left_ge0 _ _) ne.
case: ifP can => [ne|/negbFE/eqP xh] can.
  rewrite (possible_ret can) /choose_pair serve_first //.
  apply: law_attempt (p'0 x) (d20 x) _ _ => [_ refused|].
    by apply: hub_again; rewrite H2E; apply: refused_some refused.
  rewrite d2E (negbTE ne); move/possible_draw: x_drawn.
  by rewrite (normalisedE complete) q1 divr1.
move: can; rewrite some_other => can; have [y y_drawn {}can] := possible_bind can.
rewrite (possible_ret can) /choose_pair serve_hub.
have dy : d2 y != 0.
  move/possible_draw: y_drawn; rewrite (normalisedE complete) mulf_eq0 negb_or.
  by case/andP.
apply: law_attempt (o10 y) (d10 y) _ _ => [_ refused|].
  by apply: hub_next; rewrite H1E; apply: refused_some refused.
have qh : q hub != 0.
  by rewrite -xh; move/possible_draw: x_drawn; rewrite (normalisedE complete) q1 divr1.
by rewrite d1E !mulf_neq0 // invr_neq0 // gt_eqF.
Qed.
Let offered a : q a / (1 - q hub) = (1 + q hub / (1 - q hub)) * q a.
Proof. by rewrite -{2}(divff (negbT (gt_eqF q_lt))) -mulrDl subrK mul1r mulrC. Qed.
Let taken_others a : a != hub -> taken a = Num.min (p a) (q a / (1 - q hub)).
Proof.
move=> ne; rewrite /taken o1E d1E d2E p'E (negbTE ne) offered.
rewrite min_split ?divr_ge0 ?(ltW q_lt) //; congr (_ + _); rewrite minC; congr (Num.min _ _).
by rewrite mulrAC.
Qed.
Let taken0 : taken hub = 0.
Proof. by rewrite /taken o1E d1E d2E p'E eqxx mulr0 mul0r subrr maxxx !minxx addr0. Qed.
Let taken_at_hub : taken hub + taken_hub = p hub.
Proof.
rewrite taken0 add0r -[RHS]taken_hub_owed; suff -> : lh = 0 by rewrite addr0.
apply/max_idPr; rewrite subr_le0 ohE le_maxl H20 andbT ler_subl_addr.
rewrite -(ler_add2l (\sum_x taken x)) [X in _ <= _ + X]addrC addrA.
have le : \sum_x taken x <= 1 - p hub.
  by rewrite -sum_p'; apply: ler_sum => x _; rewrite -taken_owed ler_addl.
by rewrite sum_taken -ler_subr_addr.
Qed.
Lemma pair_is_law width : width != 1%N -> is_law (position (pair_with width) choose_pair).
Proof.
move=> wide; apply: law_position => [|s]; first exact: pair_with_is_law.
exact: choose_pair_is_law wide.
Qed.
Lemma pair_token width a : width != 1%N ->
  probability (fun d => d.2.1 == a) (position (pair_with width) choose_pair) = p a.
Proof.
move=> wide; rewrite /probability expected_position.
rewrite (expected_pair (fun c => (c.1 == a)%:R)) //=; under eq_bigr => x _ do rewrite -mulrDl.
rewrite sum_at lE; have [->|ne] := eqVneq a hub.
  by rewrite mulr1 -addrA taken_hub_owed taken0 add0r.
by rewrite mulr0 addr0 taken_owed p'E (negbTE ne).
Qed.
Lemma pair_accepted width a : width != 1%N ->
  accepted a (position (pair_with width) choose_pair) =
  if a == hub then p hub else Num.min (p a) (q a / (1 - q hub)).
Proof.
move=> wide; rewrite /accepted /probability expected_position.
rewrite (expected_pair (fun c => (c == (a, true))%:R)) //.
under eq_bigr => x _ do rewrite !xpair_eqE andbT andbF mulr0 addr0.
rewrite sum_at; case: eqVneq => [->|ne]; first by rewrite mulr1 taken_at_hub.
by rewrite mulr0 addr0 taken_others.
Qed.
Lemma pair_drafted width a : width != 1%N ->
  drafted a (pair_with width) = if a == hub then 1 else q a / (1 - q hub).
Proof.
move=> wide; rewrite /drafted /probability expected_pair_with //.
under eq_bigr => x _ do rewrite !inE; under [X in _ + X]eq_bigr => x _ do rewrite !inE.
have [->|ne] := eqVneq a hub.
  under eq_bigr => x _ do rewrite orbT mulr1; under [X in _ + X]eq_bigr => x _ do rewrite mulr1.
  by rewrite sum_d2 sum_d1 subrK.
under eq_bigr => x _ do rewrite orbF eq_sym; under [X in _ + X]eq_bigr => x _ do rewrite eq_sym.
by rewrite !sum_at offered d1E d2E (negbTE ne) mulrDl mul1r mulrAC.
Qed.
End Pair.

Lemma sure_off (q : T -> R) hub x : is_row q -> q hub = 1 -> x != hub -> q x = 0.
Proof.
move=> [q0 q1] qh ne; apply/eqP; rewrite eq_le q0 andbT.
rewrite -(ler_add2l (q hub)) addr0 {2}qh -[X in _ <= X]q1 (bigD1 hub) //= ler_add2l (bigD1 x) //=.
by rewrite ler_addl sumr_ge0.
Qed.
(* A single token: width 1, or a draft that is sure of the hub. *)
Section Single.
Variables (p q : T -> R) (hub : T) (width : nat).
Hypotheses (p_row : is_row p) (q_row : is_row q).
Hypothesis single : (width == 1%N) || (q hub == 1).
Local Notation rn := (field_numbers R).
Local Notation pair_with := (@pair_with rn T vocabulary hub q width).
Local Notation outcome := (position pair_with (choose_pair p q hub)).

Let zero_off x : q hub = 1 -> x != hub -> q x = 0.
Proof. exact: sure_off. Qed.
Let no_other : q hub = 1 -> any (N := rn) vocabulary (without (N := rn) q [:: hub]) = false.
Proof.
move=> qh; apply/negP => /(anyP complete)[|x]; first by apply: without_ge0; case: q_row.
have [->|ne] := eqVneq x hub; first by rewrite /without inE !eqxx.
by rewrite /without inE (negbTE ne) zero_off ?eqxx.
Qed.
Lemma expected_single (F : seq T -> R) : expected F pair_with = \sum_x q x * F [:: x].
Proof.
rewrite /pair_with expected_bind (expected_draw_row complete) //; apply: eq_bigr => x _.
move: single; case: eqVneq => [_ _|_ /= /eqP qh]; first by rewrite expected_ret.
have [->|ne] := eqVneq x hub; first by rewrite no_other // expected_ret.
by rewrite zero_off ?mul0r.
Qed.
Lemma single_with_is_law : is_law pair_with.
Proof.
rewrite /pair_with; apply: law_bind => [|x]; first exact: (law_draw_row complete).
case: ifP => _; first exact: law_ret.
case: ifP => _; first exact: law_ret.
case: ifP => [some|_]; last exact: law_ret.
apply: law_bind => [|y]; last exact: law_ret.
have w0 x' : 0 <= without (N := rn) q [:: hub] x' by apply: without_ge0; case: q_row.
by apply: (law_draw complete) => //; apply: (any_total complete).
Qed.
Lemma choose_single_is_law s : possible pair_with s -> is_law (choose_pair p q hub s).
Proof.
rewrite /pair_with => can; have [x x_drawn {}can] := possible_bind can.
have qx : q x != 0.
  move/possible_draw: x_drawn; rewrite (normalisedE complete).
  by case: q_row => _ ->; rewrite divr1.
have -> : s = [:: x].
  move: single can; case: eqVneq => [_ _ can|_ /= /eqP qh]; first exact: possible_ret can.
  have [xh|ne] := eqVneq x hub; last by rewrite zero_off ?eqxx in qx.
  by rewrite no_other // xh => can; apply: possible_ret can.
exact: (law_accept_or_correct complete).
Qed.
Lemma single_is_law : is_law outcome.
Proof. exact: law_position single_with_is_law choose_single_is_law. Qed.
Lemma single_token a : probability (fun d => d.2.1 == a) outcome = p a.
Proof.
rewrite /probability expected_position expected_single.
rewrite (expected_accept_or_correct complete (fun c => (c.1 == a)%:R)) //=.
by under eq_bigr => x _ do rewrite -mulrDl min_plus_excess; rewrite sum_at.
Qed.
Lemma single_accepted a : accepted a outcome = Num.min (p a) (q a).
Proof.
rewrite /accepted /probability expected_position expected_single.
rewrite (expected_accept_or_correct complete (fun c => (c == (a, true))%:R)) //.
under eq_bigr => x _ do rewrite !xpair_eqE andbT andbF mulr0 addr0.
by rewrite sum_at minC.
Qed.
Lemma single_drafted a : drafted a pair_with = q a.
Proof.
rewrite /drafted /probability expected_single -[RHS](sum_at q).
by apply: eq_bigr => x _; rewrite inE eq_sym.
Qed.
End Single.

(* ------------------------------------------------------------------------------------ SpecHub *)
Local Notation draw_hub := (@draw_hub (field_numbers R) T vocabulary).
Local Notation spechub := (@spechub (field_numbers R) T vocabulary).
Local Notation most_probable := (@most_probable (field_numbers R) T vocabulary).

Lemma a_hub (q : T -> R) : is_row q -> exists hub rest, most_probable q 1 = hub :: rest.
Proof.
move=> [q0 q1]; have [x qx] : exists x, q x != 0.
  apply/existsP; rewrite -negb_forall; apply/negP => /forallP all0.
  move: q1; rewrite big1 => [/eqP|y _]; first by rewrite eq_sym oner_eq0.
  by apply/eqP; apply: all0.
rewrite /most_probable; set listed := sort _ _.
have : x \in listed.
  by rewrite mem_sort mem_filter /= -ltNge lt_def qx q0 (perm_mem complete) mem_enum.
by case: listed => [|y s] // _; exists y, (take 0 s).
Qed.
Lemma spechubE (p q : T -> R) width hub rest : most_probable q 1 = hub :: rest ->
  position (draw_hub q width) (fun s => spechub s p q)
  = position (pair_with vocabulary hub q width) (choose_pair p q hub).
Proof.
move=> found; rewrite /draw_hub found /position; congr flatten; apply: eq_map => -[s w].
by congr [seq _ | _ <- _]; rewrite /spechub found /choose_pair; case: s => [|x [|y [|z s]]].
Qed.
Lemma law_draw_hub (q : T -> R) width : is_row q -> is_law (draw_hub q width).
Proof.
move=> q_row; have [hub [rest found]] := a_hub q_row; rewrite /draw_hub found.
have [single|] := boolP ((width == 1%N) || (q hub == 1)); first exact: single_with_is_law.
by rewrite negb_or => /andP[_ unsure]; apply: pair_with_is_law.
Qed.
Lemma law_spechub (p q : T -> R) width s : is_row p -> is_row q ->
  possible (draw_hub q width) s -> is_law (spechub s p q).
Proof.
move=> p_row q_row; have [hub [rest found]] := a_hub q_row; rewrite /draw_hub found => can.
have -> : spechub s p q = choose_pair p q hub s.
  by rewrite /spechub found /choose_pair; case: s {can} => [|x [|y [|z s]]].
have [single|] := boolP ((width == 1%N) || (q hub == 1)).
  exact: choose_single_is_law single _ can.
by rewrite negb_or => /andP[wide unsure]; apply: choose_pair_is_law wide can.
Qed.
(* The decision of SpecHub is a law, and its token has the law p, for one sibling and for a pair. *)
Theorem follows_spechub (p q : T -> R) width : is_row p -> is_row q ->
  follows p (position (draw_hub q width) (fun s => spechub s p q)).
Proof.
move=> p_row q_row; have [hub [rest found]] := a_hub q_row; rewrite (spechubE _ _ found).
have [single|] := boolP ((width == 1%N) || (q hub == 1)).
  by split=> [|a]; [apply: single_is_law|apply: single_token].
rewrite negb_or => /andP[wide unsure].
by split=> [|a]; [apply: pair_is_law|apply: pair_token].
Qed.
(* With a pair, SpecHub accepts the hub with probability p(hub), and any other token a with
   min(p(a), q(a) / (1 - q(hub))), where 0 / 0 is 0. *)
Theorem accepted_spechub (p q : T -> R) width hub rest a : is_row p -> is_row q ->
  width != 1%N -> most_probable q 1 = hub :: rest ->
  accepted a (position (draw_hub q width) (fun s => spechub s p q)) =
  if a == hub then p hub else Num.min (p a) (q a / (1 - q hub)).
Proof.
move=> p_row q_row wide found; rewrite (spechubE _ _ found).
have [sure|unsure] := eqVneq (q hub) 1; last exact: pair_accepted.
rewrite single_accepted ?sure ?eqxx ?orbT //; have [p0 p1] := p_row.
have [->|ne] := eqVneq a hub; last by rewrite subrr invr0 mulr0 (sure_off q_row sure).
by rewrite sure; apply/min_idPl; rewrite -p1 (bigD1 hub) //= ler_addl sumr_ge0.
Qed.
(* The hub is in every pair, and any other token a with probability q(a) / (1 - q(hub)), where 0 / 0
   is 0. *)
Theorem drafted_spechub (q : T -> R) width hub rest a : is_row q ->
  width != 1%N -> most_probable q 1 = hub :: rest ->
  drafted a (draw_hub q width) = if a == hub then 1 else q a / (1 - q hub).
Proof.
move=> q_row wide found; rewrite /draw_hub found.
have [sure|unsure] := eqVneq (q hub) 1; last exact: pair_drafted.
rewrite single_drafted ?sure ?eqxx ?orbT //.
by have [->|ne] := eqVneq a hub; rewrite // subrr invr0 mulr0 (sure_off q_row sure).
Qed.
(* SpecHub accepts a token a with probability min(p(a), P(a is drafted)), with one sibling and with
   a pair. *)
Theorem accepted_spechub_best (p q : T -> R) width a : is_row p -> is_row q ->
  accepted a (position (draw_hub q width) (fun s => spechub s p q)) =
  Num.min (p a) (drafted a (draw_hub q width)).
Proof.
move=> p_row q_row; have [hub [rest found]] := a_hub q_row.
have [one|wide] := boolP (width == 1%N).
  by rewrite (spechubE _ _ found) /draw_hub found single_accepted ?single_drafted ?one.
rewrite (accepted_spechub a p_row q_row wide found) (drafted_spechub a q_row wide found).
case: eqP => // ->; apply/esym/min_idPl; have [p0 <-] := p_row.
by rewrite (bigD1 hub) //= ler_addl sumr_ge0.
Qed.
(* A token that goes on was drafted, for the siblings that the scheme can draw. *)
Lemma attempt_drafted (token : T) (owed offered : R) (C : law (T * bool)) (s : seq T)
    chosen : token \in s ->
  (possible C chosen -> chosen.2 -> chosen.1 \in s) ->
  possible (attempt token owed offered C) chosen -> chosen.2 -> chosen.1 \in s.
Proof.
move=> there ok; rewrite /attempt => can; have [[] _ {}can] := possible_bind can; last exact: ok.
by rewrite (possible_ret can).
Qed.
Lemma never_drafted (r : T -> R) (s : seq T) chosen :
  possible (x <- draw r ;; ret _ (x, false)) chosen -> chosen.2 -> chosen.1 \in s.
Proof. by move=> can; have [x _ {}can] := possible_bind can; rewrite (possible_ret can). Qed.
(* Of the siblings that the scheme can draw, SpecHub goes on only at a token that is among them. *)
Theorem spechub_drafted (p q : T -> R) width s chosen : is_row q ->
  possible (draw_hub q width) s -> possible (spechub s p q) chosen -> chosen.2 ->
  chosen.1 \in s.
Proof.
move=> q_row; have [hub [rest found]] := a_hub q_row; rewrite /draw_hub found /pair_with => can.
have single x : possible (spechub [:: x] p q) chosen -> chosen.2 -> chosen.1 \in [:: x].
  exact: (attempt_drafted (mem_head _ _) (@never_drafted _ _ _)).
have pair x y : hub \in [:: x; y] -> possible (spechub [:: x; y] p q) chosen -> chosen.2 ->
    chosen.1 \in [:: x; y].
  rewrite /spechub found /serve => hub_in.
  case: ifP => _; (apply: attempt_drafted; first by rewrite !inE eqxx ?orbT);
    by apply: attempt_drafted => //; apply: never_drafted.
have [x _ {}can] := possible_bind can; case: ifP can => [_ can|_].
  by rewrite (possible_ret can); apply: single.
case: ifP => [_ can|_].
  by rewrite (possible_ret can); apply: pair; rewrite !inE eqxx orbT.
case: ifP => [_ can|_ can]; last by rewrite (possible_ret can); apply: single.
have [y _ {}can] := possible_bind can.
by rewrite (possible_ret can); apply: pair; rewrite !inE eqxx.
Qed.
(* In a tree that draws its siblings on demand, after each node one token where its history says so,
   or where the draft is sure of the hub, and a pair elsewhere, the outcome of SpecHub is a law,
   balanced and lossless. *)
Theorem spechub_lossless widths depth (p q : seq T -> T -> R) : is_model p -> is_model q ->
  let m := descend (N := field_numbers R) vocabulary p q (on_demand draw_hub widths q)
    spechub depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> p_model q_model; apply: (growing_lossless complete) => // width r d r_row d_row.
exact: follows_spechub.
Qed.
End Theorems.

(* -------------------------------------------------------------- the naive rule with these pairs *)
From Draftproof Require Import target_first.

Section Naive.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation draw_hub := (@draw_hub (field_numbers R) T vocabulary).

Lemma first_alone_draw_hub (q : T -> R) width : is_row q -> first_alone q (draw_hub q width).
Proof.
move=> q_row x; have [hub [rest found]] := a_hub complete q_row.
rewrite /spechub.draw_hub found.
have first (f : seq T -> R) (g : T -> R) : (forall y s, f (y :: s) = g y) ->
    expected f (pair_with vocabulary hub q width) = \sum_y q y * g y.
  move=> fg; rewrite expected_bind (expected_draw_row complete) //; apply: eq_bigr => y _.
  congr (_ * _); case: ifP => _; first by rewrite expected_ret fg.
  case: eqVneq => [->|_] /=; last by rewrite expected_ret fg.
  case: ifP => [some|_]; last by rewrite expected_ret fg.
  rewrite expected_bind (eq_expected (g := fun=> g hub)) => [|z]; last by rewrite expected_ret fg.
  have w0 z : 0 <= without (N := field_numbers R) q [:: hub] z.
    by apply: without_ge0; case: q_row.
  have [_ total1] := law_draw complete w0 (any_total complete w0 some).
  by rewrite expected_const total1 mul1r.
have [_ q1] := q_row; rewrite /probability.
rewrite (first (fun s => (ohead s == Some x)%:R) (fun y => (y == x)%:R)) //.
rewrite (first (fun s => (~~ nilp s)%:R) (fun=> 1)) // sum_at -mulr_suml q1 !mul1r //.
Qed.
(* In a tree that draws the siblings of SpecHub on demand, after each node one token where its
   history says so, or where the draft is sure of the hub, and a pair elsewhere, the outcome of the
   naive tree rule is a law, balanced and lossless. *)
Theorem naive_tree_hub_lossless widths depth (p q : seq T -> T -> R) : is_model p -> is_model q ->
  let m := descend (N := field_numbers R) vocabulary p q (on_demand draw_hub widths q)
    (naive_tree vocabulary) depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> p_model q_model; apply: (naive_tree_lossless complete) => // h.
by split; [apply: (law_draw_hub complete)|apply: first_alone_draw_hub].
Qed.
End Naive.
