(* Recursive rejection: try the siblings in turn, each against the mass that is still owed.

   Siblings are drawn with replacement (i.i.d.) or without (each from the draft's row without those
   drawn before; fewer where its support runs out). Proved for every vocabulary, target, draft and
   number of siblings: the token chosen has the target's law, so a tree of any depth and widths is
   lossless; only siblings are accepted, none of them without probability in the draft, and without
   replacement no two of them are equal; and with replacement, a sibling i is accepted with
   probability min(p(i), g q(i)), where g starts at 0 and each further sibling adds 1 - sum of
   min(p, g q). arXiv 2305.09781 with replacement, arXiv 2402.14160 and 2402.12374 without. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T).
Local Open Scope number_scope.
Local Notation row := (row N T).
Implicit Types (p q r : row) (siblings : seq T).

(* A row with zeros at some tokens, not normalised; that a row has any weight. *)
Definition without r (tokens : seq T) : row := fun x => if x \in tokens then 0 else r x.
Definition any r : bool := has (fun x => ~~ (r x <= 0)) vocabulary.

(* Siblings drawn one after another, from a row that may depend on those drawn before. *)
Fixpoint one_by_one (rows : seq T -> row) (goes_on : seq T -> bool) (width : nat)
    (drawn : seq T) : law N (seq T) :=
  if width is width'.+1 then
    if goes_on drawn then
      x <- draw vocabulary (rows drawn) ;;
      others <- one_by_one rows goes_on width' (rcons drawn x) ;; ret _ (x :: others)
    else ret _ [::]
  else ret _ [::].
Definition draw_iid r (width : nat) : law N (seq T) :=
  one_by_one (fun=> r) (fun=> true) width [::].
Definition draw_without_replacement r (width : nat) : law N (seq T) :=
  one_by_one (without r) (fun drawn => any (without r drawn)) width [::].
Definition draw_siblings (replaced : bool) : row -> nat -> law N (seq T) :=
  if replaced then draw_iid else draw_without_replacement.

(* The row that a sibling was drawn from, given those tried before it. *)
Definition drawn_from (replaced : bool) q (tried : seq T) : row :=
  if replaced then q else normalised vocabulary (without q tried).

Fixpoint try_siblings (from : seq T -> row) (tried siblings : seq T) p : law N (T * bool) :=
  if siblings is token :: siblings' then
    accepts <- coin (least 1 (p token / from tried token)) ;;
    if accepts then ret _ (token, true) else
    try_siblings from (rcons tried token) siblings'
      (normalised vocabulary (excess p (from tried) 1))
  else token <- draw vocabulary p ;; ret _ (token, false).
Definition recursive_rejection (replaced : bool) : rule N T := fun siblings p q =>
  try_siblings (drawn_from replaced q) [::] siblings p.

(* Token verification's rule for the one token drawn from q, the first sibling. *)
Definition accept_or_correct : rule N T := fun siblings p q =>
  if siblings is drafted :: _ then
    accepts <- coin (least 1 (p drafted / q drafted)) ;;
    if accepts then ret _ (drafted, true) else
    token <- draw vocabulary (excess p q 1) ;; ret _ (token, false)
  else token <- draw vocabulary p ;; ret _ (token, false).
End Programs.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments coin : simpl never.
Local Arguments expected : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* -------------------------------------------------------------------- one test of one sibling *)
Section OneTest.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation draw := (@draw (field_numbers R) T vocabulary).
Local Notation excess p q := (@excess (field_numbers R) T p q 1).
Local Notation normalised := (@normalised (field_numbers R) T vocabulary).
Implicit Types (p q b f : T -> R).

Definition owed p b : R := \sum_x Num.max (p x - b x) 0.

Lemma excess1E p b x : excess p b x = Num.max (p x - b x) 0.
Proof. by rewrite /laws.excess positive_partE /= mul1r. Qed.
Lemma excess1_ge0 p b x : 0 <= excess p b x.
Proof. by rewrite excess1E le_maxr lexx orbT. Qed.
Lemma total_excess1 p b : \sum_x excess p b x = owed p b.
Proof. by apply: eq_bigr => x _; rewrite excess1E. Qed.
Lemma normalisedE r x : normalised r x = r x / \sum_y r y.
Proof. by rewrite /normalised /= (totalE complete). Qed.
Lemma owed_residual p b x : owed p b != 0 ->
  owed p b * normalised (excess p b) x = Num.max (p x - b x) 0.
Proof. by move=> s0; rewrite normalisedE total_excess1 excess1E mulrCA divff ?mulr1. Qed.
Lemma normalised_row (r : T -> R) : (forall x, 0 <= r x) -> 0 < \sum_x r x -> is_row (normalised r).
Proof.
move=> r0 r1; split=> [x|]; first by rewrite normalisedE divr_ge0 ?(ltW r1).
by under eq_bigr do rewrite normalisedE; rewrite -mulr_suml divff ?gt_eqF.
Qed.

Section Rows.
Variables p b : T -> R.
Hypotheses (p_row : is_row p) (b_row : is_row b).
Let chance x := Num.min 1 (p x / b x).
Let p0 x : 0 <= p x. Proof. by case: p_row. Qed.
Let b0 x : 0 <= b x. Proof. by case: b_row. Qed.
Let p1 : \sum_x p x = 1. Proof. by case: p_row. Qed.
Let b1 : \sum_x b x = 1. Proof. by case: b_row. Qed.

Lemma residual_row : owed p b != 0 -> is_row (normalised (excess p b)).
Proof.
move=> s0; apply: normalised_row => [x|]; first exact: excess1_ge0.
by rewrite total_excess1 lt_def s0 owed_ge0.
Qed.
Lemma refused_mass : \sum_x b x * (1 - chance x) = owed p b.
Proof. by rewrite (rejected p0 b0 p1 b1) subrr addr0. Qed.
Lemma chance01 x : 0 <= chance x <= 1.
Proof. exact: min1_in01. Qed.
Lemma none_refused : owed p b = 0 -> forall x, b x * (1 - chance x) = 0.
Proof.
rewrite -refused_mass => /eqP; rewrite psumr_eq0 => [/allP all0 x|x _]; last first.
  by rewrite mulr_ge0 // subr_ge0; case/andP: (chance01 x).
by apply/eqP/(implyP (all0 x _)); rewrite ?mem_index_enum.
Qed.
Lemma refused_row x : b x != 0 -> 1 - chance x != 0 -> is_row (normalised (excess p b)).
Proof.
move=> bx cx; apply: residual_row; apply/eqP => /none_refused/(_ x)/eqP.
by rewrite mulf_eq0 (negbTE bx) (negbTE cx).
Qed.

(* A token drawn from b is accepted with min(1, p / b); what happens after a refusal is worth v. *)
Lemma tested (f F : T -> R) v :
  (is_row (normalised (excess p b)) -> forall x, F x = v) ->
  \sum_x b x * (chance x * f x + (1 - chance x) * F x)
  = \sum_x Num.min (b x) (p x) * f x + owed p b * v.
Proof.
move=> Fv; under eq_bigr => x _ do rewrite mulrDr !mulrA kept_share //.
rewrite big_split /=; congr (_ + _); have [s0|s0] := eqVneq (owed p b) 0.
  by rewrite s0 mul0r big1 // => x _; rewrite none_refused ?mul0r.
rewrite -refused_mass mulr_suml; apply: eq_bigr => x _; rewrite Fv //.
exact: residual_row.
Qed.
Lemma min_plus_residual y :
  Num.min (b y) (p y) + owed p b * normalised (excess p b) y = p y.
Proof. by rewrite normalisedE total_excess1 excess1E -(kept_share (p0 y) (b0 y)) restored. Qed.
End Rows.

Lemma law_accept_or_correct p b x siblings : is_row p -> is_row b -> b x != 0 ->
  is_law (accept_or_correct vocabulary (x :: siblings) p b : law (T * bool)).
Proof.
move=> p_row b_row bx; rewrite /accept_or_correct leastE.
have c01 := chance01 p_row b_row x.
apply: law_bind_possible => [|[] /possible_coin /=]; [exact: law_coin|by move=> _; exact: law_ret|].
move=> /(refused_row p_row b_row bx) [_ total1].
apply: law_bind => [|y]; last exact: law_ret.
apply: (law_draw complete) => [y|]; first exact: excess1_ge0.
rewrite lt_def sumr_ge0 ?andbT => [|y _]; last exact: excess1_ge0.
apply/eqP => s0; move: total1; under eq_bigr do rewrite normalisedE s0 invr0 mulr0.
by rewrite big1 // => /eqP; rewrite eq_sym oner_eq0.
Qed.
(* The token is drawn from b: what is accepted is min(p, b), and the rest of p is the correction. *)
Lemma expected_accept_or_correct (f : T * bool -> R) p b : is_row p -> is_row b ->
  \sum_x b x * expected f (accept_or_correct vocabulary [:: x] p b : law (T * bool))
  = \sum_x (Num.min (b x) (p x) * f (x, true) + Num.max (p x - b x) 0 * f (x, false)).
Proof.
move=> p_row b_row; rewrite big_split /=.
have -> : \sum_x Num.max (p x - b x) 0 * f (x, false) =
    owed p b * \sum_x normalised (excess p b) x * f (x, false).
  rewrite mulr_sumr; apply: eq_bigr => x _; rewrite mulrA; congr (_ * _).
  by apply: (addrI (Num.min (b x) (p x))); rewrite min_plus_residual // min_plus_excess.
rewrite -(tested p_row b_row (fun x => f (x, true))
  (F := fun=> \sum_x normalised (excess p b) x * f (x, false))) //.
apply: eq_bigr => x _; congr (_ * _).
rewrite /accept_or_correct expected_bind expected_coin leastE expected_ret; congr (_ + _ * _).
rewrite expected_bind (expected_draw complete).
by apply: eq_bigr => y _; rewrite expected_ret normalisedE.
Qed.
(* A correction never equals the token that was refused. *)
Lemma refused_differs p b x siblings chosen : is_row p -> is_row b -> b x != 0 ->
  possible (accept_or_correct vocabulary (x :: siblings) p b : law (T * bool)) chosen ->
  (chosen.1 == x) = chosen.2.
Proof.
rewrite /accept_or_correct => p_row b_row bx can; have [accepts heads {}can] := possible_bind can.
case: accepts heads can => heads can; first by rewrite (possible_ret can) eqxx.
have [y y_drawn {}can] := possible_bind can; rewrite (possible_ret can) /=.
move: heads => /possible_coin /=; rewrite leastE => refused.
apply/negP => /eqP yx; move: y_drawn; rewrite yx => /possible_draw.
rewrite normalisedE excess1E mulf_eq0 negb_or => /andP[more _].
have [p0 _] := p_row; have [b0 _] := b_row; have bp : 0 < b x by rewrite lt_def bx b0.
have le : b x <= p x by rewrite leNgt; apply/negP => lt; move: more;
  rewrite (max_idPr _) ?eqxx // subr_le0 ltW.
by move: refused; rewrite (min_idPl _) ?subrr ?eqxx // ler_pdivl_mulr ?mul1r.
Qed.
Lemma expected_kept_or_corrected (g : T -> bool -> R) p b : is_row p -> is_row b ->
  \sum_x b x * expected (fun chosen => g chosen.1 (chosen.1 == x))
    (accept_or_correct vocabulary [:: x] p b : law (T * bool))
  = \sum_x (Num.min (b x) (p x) * g x true + Num.max (p x - b x) 0 * g x false).
Proof.
move=> p_row b_row.
rewrite -(expected_accept_or_correct (fun chosen => g chosen.1 chosen.2)) //.
apply: eq_bigr => x _; have [->|bx] := eqVneq (b x) 0; first by rewrite !mul0r.
congr (_ * _); apply: eq_expected_possible => chosen can.
by rewrite (refused_differs p_row b_row bx can).
Qed.
End OneTest.

(* ------------------------------------------------------------------------- siblings in turn *)
Section InTurn.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation draw := (@draw (field_numbers R) T vocabulary).
Local Notation normalised := (@normalised (field_numbers R) T vocabulary).
Local Notation excess p q := (@excess (field_numbers R) T p q 1).
Variables (rows from : seq T -> T -> R) (goes_on : seq T -> bool).
Local Notation one_by_one := (@one_by_one (field_numbers R) T vocabulary rows goes_on).
Local Notation try_siblings := (@try_siblings (field_numbers R) T vocabulary from).
(* Each sibling is tested against the row that it was drawn from. *)
Hypothesis from_row : forall drawn, goes_on drawn -> is_row (from drawn).
Hypothesis draw_from : forall drawn (f : T -> R), goes_on drawn ->
  expected f (draw (rows drawn)) = \sum_x from drawn x * f x.
Hypothesis drawn_law : forall drawn, goes_on drawn -> is_law (draw (rows drawn)).
Hypothesis drawn_some : forall drawn x, goes_on drawn ->
  possible (draw (rows drawn)) x -> from drawn x != 0.
Implicit Types (p : T -> R) (drawn : seq T).

Lemma law_one_by_one width drawn : is_law (one_by_one width drawn).
Proof.
elim: width drawn => [|width IH] drawn /=; first exact: law_ret.
case: ifP => [on|_]; last exact: law_ret.
apply: law_bind => [|x]; first exact: drawn_law.
by apply: law_bind => // others; apply: law_ret.
Qed.
Lemma law_try_siblings width drawn siblings p : is_row p ->
  possible (one_by_one width drawn) siblings -> is_law (try_siblings drawn siblings p).
Proof.
have last_draw r : is_row r -> is_law (x <- draw r ;; ret _ (x, false)).
  by move=> r_row; apply: law_bind => [|x]; [apply: (law_draw_row complete)|apply: law_ret].
elim: width drawn siblings p => [|width IH] drawn siblings p p_row /=.
  by move=> can; rewrite (possible_ret can) /=; apply: last_draw.
case: ifP => [on|_]; last by move=> can; rewrite (possible_ret can) /=; apply: last_draw.
move=> can; have [x x_drawn {}can] := possible_bind can.
have [others others_drawn {}can] := possible_bind can; rewrite (possible_ret can) /= leastE.
have c01 := chance01 p_row (from_row on) x.
apply: law_bind_possible => [|[] /possible_coin /=]; [exact: law_coin|by move=> _; exact: law_ret|].
move=> /(refused_row complete p_row (from_row on) (drawn_some on x_drawn)) left_row.
exact: IH left_row others_drawn.
Qed.

(* What the choice is worth, for the siblings after `drawn` and the row p that is owed. *)
Definition in_turn (f : T * bool -> R) width drawn p : R :=
  expected (fun siblings => expected f (try_siblings drawn siblings p)) (one_by_one width drawn).

Lemma in_turn_end f width drawn p : is_row p -> ~~ ((0 < width)%N && goes_on drawn) ->
  in_turn f width drawn p = \sum_x p x * f (x, false).
Proof.
move=> p_row stop; rewrite /in_turn.
have -> : one_by_one width drawn = ret _ [::].
  by case: width stop => [|width] //= /negbTE ->.
rewrite expected_ret /= expected_bind (expected_draw_row complete) //.
by apply: eq_bigr => x _; rewrite expected_ret.
Qed.
Lemma in_turn_step f width drawn p v : is_row p -> goes_on drawn ->
  (is_row (normalised (excess p (from drawn))) -> forall x,
    in_turn f width (rcons drawn x) (normalised (excess p (from drawn))) = v) ->
  in_turn f width.+1 drawn p =
  \sum_x Num.min (from drawn x) (p x) * f (x, true) + owed p (from drawn) * v.
Proof.
move=> p_row on after; rewrite -(tested complete p_row (from_row on) (fun x => f (x, true)) after).
rewrite /in_turn [one_by_one _ _]/= on expected_bind draw_from //.
apply: eq_bigr => x _; congr (_ * _); rewrite expected_bind.
have [_ total1] := law_one_by_one width (rcons drawn x).
set c := Num.min 1 _.
have -> : c * f (x, true) = expected (fun=> c * f (x, true)) (one_by_one width (rcons drawn x)).
  by rewrite expected_const total1 mul1r.
rewrite -expected_mull -expected_add; apply: eq_expected => siblings.
by rewrite expected_ret /= expected_bind expected_coin leastE expected_ret.
Qed.

(* Where siblings are tried in turn, each against the law that it was drawn from, the token is y
   with probability p(y). *)
Theorem token_in_turn width drawn p y : is_row p ->
  expected (fun siblings => probability (fun c => c.1 == y) (try_siblings drawn siblings p))
    (one_by_one width drawn) = p y.
Proof.
rewrite -[LHS]/(in_turn (fun c => (c.1 == y)%:R) width drawn p).
elim: width drawn p => [|width IH] drawn p p_row.
  by rewrite in_turn_end //= sum_at.
case on: (goes_on drawn); last by rewrite in_turn_end ?on //= sum_at.
rewrite (in_turn_step (v := normalised (excess p (from drawn)) y)) //=; last first.
  by move=> left_row x; apply: IH.
by rewrite sum_at min_plus_residual //; apply: from_row.
Qed.
(* The decision of trying siblings in turn, each against the law that it was drawn from, is a law,
   and its token has the law p. *)
Theorem follows_in_turn width p : is_row p ->
  follows p (position (one_by_one width [::]) (fun siblings => try_siblings [::] siblings p)).
Proof.
move=> p_row; apply: follows_each; first exact: law_one_by_one.
  by move=> siblings; apply: law_try_siblings.
by move=> a; apply: token_in_turn.
Qed.
Lemma accepted_in_turn a width p : accepted a
    (position (one_by_one width [::]) (fun siblings => try_siblings [::] siblings p))
  = in_turn (fun c => (c == (a, true))%:R) width [::] p.
Proof. by rewrite /accepted /probability expected_position. Qed.
End InTurn.

(* ------------------------------------------------------------------------ recursive rejection *)
Section RecursiveRejection.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation any := (@any (field_numbers R) T vocabulary).
Local Notation without := (@without (field_numbers R) T).
Local Notation draw := (@draw (field_numbers R) T vocabulary).
Local Notation drawn_from := (@drawn_from (field_numbers R) T vocabulary).
Local Notation draw_siblings := (@draw_siblings (field_numbers R) T vocabulary).
Local Notation draw_iid := (@draw_iid (field_numbers R) T vocabulary).
Local Notation recursive_rejection := (@recursive_rejection (field_numbers R) T vocabulary).
Implicit Types (p q r : T -> R) (tokens drawn : seq T).

Lemma without_ge0 r tokens : (forall x, 0 <= r x) -> forall x, 0 <= without r tokens x.
Proof. by move=> r0 x; rewrite /without; case: ifP. Qed.
Lemma anyP r : (forall x, 0 <= r x) -> reflect (exists x, r x != 0) (any r).
Proof.
move=> r0; apply: (iffP hasP) => [[x _] /=|[x rx]].
  by rewrite -ltNge; exists x; rewrite gt_eqF.
by exists x; rewrite ?(perm_mem complete) ?mem_enum //= -ltNge lt_def rx r0.
Qed.
Lemma any_total r : (forall x, 0 <= r x) -> any r -> 0 < \sum_x r x.
Proof.
move=> r0 /(anyP r0)[x rx]; rewrite lt_def sumr_ge0 // andbT psumr_eq0 //.
by apply/allPn; exists x; rewrite ?mem_index_enum.
Qed.

Section Schemes.
Variable q : T -> R.
Hypothesis q_row : is_row q.
Variable replaced : bool.
Let rows := if replaced then fun=> q else without q.
Let goes_on := if replaced then xpredT else fun drawn => any (without q drawn).
Let q0 : forall x, 0 <= q x. Proof. by case: q_row. Qed.

Lemma draw_siblingsE width :
  draw_siblings replaced q width = one_by_one vocabulary rows goes_on width [::].
Proof. by rewrite /rows /goes_on; case: replaced. Qed.
Lemma from_row drawn : goes_on drawn -> is_row (drawn_from replaced q drawn).
Proof.
rewrite /goes_on /drawn_from; case: replaced => // on.
by apply: (normalised_row complete); [apply: without_ge0|apply: any_total on; apply: without_ge0].
Qed.
Lemma draw_from drawn (f : T -> R) :
  expected f (draw (rows drawn)) = \sum_x drawn_from replaced q drawn x * f x.
Proof.
rewrite /rows /drawn_from; case: replaced; first by rewrite (expected_draw_row complete).
by rewrite (expected_draw complete); apply: eq_bigr => x _; rewrite (normalisedE complete).
Qed.
Lemma drawn_law drawn : goes_on drawn -> is_law (draw (rows drawn)).
Proof.
rewrite /goes_on /rows; case: replaced => on; first exact: (law_draw_row complete).
by apply: (law_draw complete); [apply: without_ge0|apply: any_total on; apply: without_ge0].
Qed.
Lemma drawn_some drawn x : possible (draw (rows drawn)) x -> drawn_from replaced q drawn x != 0.
Proof.
rewrite /rows /drawn_from; case: replaced => /possible_draw //.
by rewrite (normalisedE complete); case: q_row => _ ->; rewrite divr1.
Qed.

Lemma law_draw_siblings width : is_law (draw_siblings replaced q width).
Proof. by rewrite draw_siblingsE; apply: law_one_by_one => drawn; apply: drawn_law. Qed.
Lemma law_recursive_rejection width siblings p : is_row p ->
  possible (draw_siblings replaced q width) siblings ->
  is_law (recursive_rejection replaced siblings p q).
Proof.
rewrite draw_siblingsE => p_row; apply: (law_try_siblings complete) p_row => drawn.
  exact: from_row.
by move=> x _; apply: drawn_some.
Qed.
(* The decision of recursive rejection is a law, and its token has the law p, with and without
   replacement and for any number of siblings, also one larger than the draft's support. *)
Theorem follows_recursive_rejection width p : is_row p -> follows p
  (position (draw_siblings replaced q width) (fun s => recursive_rejection replaced s p q)).
Proof.
rewrite draw_siblingsE; apply: (follows_in_turn complete) => drawn.
- exact: from_row.
- by move=> f _; apply: draw_from.
- exact: drawn_law.
by move=> x _; apply: drawn_some.
Qed.
End Schemes.

Lemma drawn_anew q width drawn s : is_row q ->
  possible (one_by_one (N := field_numbers R) vocabulary (without q)
    (fun d => any (without q d)) width drawn) s ->
  uniq s && all (fun x => (x \notin drawn) && (q x != 0)) s.
Proof.
move=> q_row; elim: width drawn s => [|width IH] drawn s /= can;
  
  first by rewrite (possible_ret can).
case: ifP can => _ can; last by rewrite (possible_ret can).
have [x x_drawn {}can] := possible_bind can; have [others others_drawn {}can] := possible_bind can.
rewrite (possible_ret can) /=; have /andP[-> /allP anew] := IH _ _ others_drawn.
move/possible_draw: x_drawn; rewrite (normalisedE complete) mulf_eq0 negb_or /without.
case: ifPn => [_|x_new /andP[qx _]]; first by rewrite eqxx.
rewrite qx andbT /=; apply/andP; split.
  by apply/negP => /anew; rewrite mem_rcons mem_head.
by apply/allP => y /anew; rewrite mem_rcons inE negb_or => /andP[/andP[_ ->] ->].
Qed.
(* Every sibling drawn, with or without replacement, has probability in the draft's row. *)
Theorem siblings_probable replaced q width s x : is_row q ->
  possible (draw_siblings replaced q width) s -> x \in s -> q x != 0.
Proof.
case: replaced => q_row; last by move=> /(drawn_anew q_row)/andP[_ /allP ok] /ok/andP[].
rewrite /draw_siblings /rejection.draw_iid.
elim: width [::] s => [|width IH] drawn s /= can; first by rewrite (possible_ret can).
have [y y_drawn {}can] := possible_bind can; have [others others_drawn {}can] := possible_bind can.
rewrite (possible_ret can) inE => /orP[/eqP ->|]; last exact: IH others_drawn.
by move/possible_draw: y_drawn; rewrite (normalisedE complete); case: q_row => _ ->; rewrite divr1.
Qed.
(* Without replacement no token is drawn twice among the siblings of a node. *)
Theorem siblings_differ q width s : is_row q -> possible (draw_siblings false q width) s -> uniq s.
Proof. by move=> q_row /(drawn_anew q_row)/andP[]. Qed.

(* Recursive rejection goes on only at a token that is among the siblings. *)
Theorem recursive_rejection_drafted replaced p q :
  goes_on_drafted (fun siblings => recursive_rejection replaced siblings p q).
Proof.
move=> siblings chosen; rewrite /recursive_rejection.
elim: siblings [::] p => [|x siblings IH] tried p /= can.
  by have [y _ {}can] := possible_bind can; rewrite (possible_ret can).
have [[] _ {}can] := possible_bind can; first by rewrite (possible_ret can) mem_head.
by move=> /(IH _ _ can) there; rewrite inE there orbT.
Qed.

(* In a tree that draws its siblings on demand, as many after each copy of a node as its history
   says, with replacement, or without until the draft has no more, the outcome of recursive
   rejection is a law, balanced and lossless. *)
Theorem recursive_rejection_lossless replaced widths depth (p q : seq T -> T -> R) :
  is_model p -> is_model q ->
  let m := descend vocabulary p q (on_demand (draw_siblings replaced) widths q)
    (recursive_rejection replaced) depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> p_model q_model; apply: (growing_lossless complete) => // width r d r_row d_row.
exact: follows_recursive_rejection.
Qed.

(* I.i.d. siblings. *)
Section Iid.
Variable q : T -> R.
Hypothesis q_row : is_row q.
Lemma expected_iid0 (f : seq T -> R) : expected f (draw_iid q 0) = f [::].
Proof. exact: expected_ret. Qed.
Lemma expected_iidS (f : seq T -> R) width : expected f (draw_iid q width.+1) =
  \sum_x q x * expected (fun others => f (x :: others)) (draw_iid q width).
Proof.
have same (g : seq T -> R) w d d' :
    expected g (one_by_one (N := field_numbers R) vocabulary (fun=> q) xpredT w d)
    = expected g (one_by_one (N := field_numbers R) vocabulary (fun=> q) xpredT w d').
  elim: w g d d' => [|w IH] g d d' //=; rewrite !expected_bind; apply: eq_expected => x.
  by rewrite !expected_bind; apply: IH.
rewrite [draw_iid _ _]/= expected_bind (expected_draw_row complete) //.
apply: eq_bigr => x _; congr (_ * _); rewrite expected_bind (same _ _ _ [::]).
by apply: eq_expected => others; rewrite expected_ret.
Qed.
Lemma law_draw_iid width : is_law (draw_iid q width).
Proof. exact: (law_draw_siblings q_row true). Qed.
Lemma missed_iid a width :
  probability (fun siblings => a \notin siblings) (draw_iid q width) = (1 - q a) ^+ width.
Proof.
have [_ q1] := q_row; elim: width => [|width IH]; first by rewrite /probability expected_iid0.
rewrite /probability expected_iidS exprS -IH.
have -> : 1 - q a = \sum_x (q x - q x * (x == a)%:R) by rewrite sumrB q1 sum_at.
rewrite mulr_suml /probability.
apply: eq_bigr => x _; rewrite -[X in (X - _) * _]mulr1 -mulrBr -mulrA; congr (_ * _).
rewrite -expected_mull; apply: eq_expected => others; rewrite inE negb_or eq_sym.
by case: (x == a); rewrite ?subrr ?mul0r // subr0 mul1r.
Qed.
(* A token a is among K independent siblings with probability 1 - (1 - q(a))^K. *)
Theorem drafted_iid a width : drafted a (draw_iid q width) = 1 - (1 - q a) ^+ width.
Proof.
rewrite -missed_iid; have [_ <-] := law_draw_iid width.
rewrite -expected_sub; apply: eq_expected => siblings.
by case: (a \in siblings); rewrite ?subr0 ?subrr.
Qed.
End Iid.

(* With replacement: how often a sibling is accepted. *)
Fixpoint reach p q (width : nat) : R :=
  if width is width'.+1 then
    reach p q width' + (1 - \sum_x Num.min (p x) (reach p q width' * q x))
  else 0.

Lemma reach_step_ge0 p q c : is_row p -> 0 <= 1 - \sum_x Num.min (p x) (c * q x).
Proof. by move=> [_ <-]; rewrite -sumrB sumr_ge0 // => x _; rewrite subr_ge0 le_minl lexx. Qed.
Lemma reach_ge0 p q width : is_row p -> 0 <= reach p q width.
Proof. by move=> p_row; elim: width => //= width IH; rewrite addr_ge0 // reach_step_ge0. Qed.
Lemma reach_ge1 p q width : is_row p -> 1 <= reach p q width.+1.
Proof.
move=> p_row; elim: width => [|width IH]; last first.
  by apply: le_trans IH _; rewrite [X in _ <= X]/= ler_addl reach_step_ge0.
by rewrite /= big1 ?subr0 ?add0r // => x _; rewrite mul0r; apply/min_idPr; case: p_row.
Qed.
Lemma min_split (x y t : R) : 0 <= y -> 0 <= t ->
  Num.min x ((1 + t) * y) = Num.min y x + Num.min (Num.max (x - y) 0) (t * y).
Proof.
move=> y0 t0; have ty0 : 0 <= t * y by rewrite mulr_ge0.
rewrite mulrDl mul1r; case: (lerP x y) => xy.
  rewrite (min_idPl _) ?(le_trans xy) ?ler_addl //.
  by rewrite (max_idPr _) ?subr_le0 // (min_idPl ty0) addr0.
by rewrite (max_idPl _) ?subr_ge0 ?(ltW xy) // addr_minr [y + (x - y)]addrC subrK.
Qed.
Lemma reach_residual p q width : is_row p -> is_row q -> owed p q != 0 ->
  reach p q width.+1 =
  1 + owed p q * reach (normalised (N := field_numbers R) vocabulary (excess p q 1)) q width.
Proof.
move=> p_row q_row s0; set r := normalised _ _.
have r_row : is_row r by apply: (residual_row complete).
have [q0 q1] := q_row; have [p0 p1] := p_row.
elim: width => [|width IH].
  by rewrite /= mulr0 addr0 big1 ?subr0 ?add0r // => x _; rewrite mul0r; apply/min_idPr.
rewrite [LHS]/= -/(reach p q width.+1) IH [reach r q width.+1]/= mulrDr addrA; congr (_ + _).
have t0 : 0 <= owed p q * reach r q width by rewrite mulr_ge0 ?reach_ge0 ?owed_ge0.
under eq_bigr => x _ do rewrite min_split //.
rewrite big_split opprD addrA /=; rewrite mulrBr mulr1; congr (_ - _).
  have := refused_mass p_row q_row; under eq_bigr => x _ do rewrite mulrBr mulr1 kept_share //.
  by rewrite sumrB q1.
rewrite mulr_sumr; apply: eq_bigr => x _; rewrite minr_pmulr ?owed_ge0 //.
by rewrite (owed_residual complete) // [in RHS]mulrA.
Qed.

(* With replacement, for K siblings, recursive rejection accepts a token a with probability
   min(p(a), g_K q(a)), g by the recursion of `reach`: g_0 = 0, and g_(K+1) = g_K + 1 - the sum of
   min(p, g_K q). *)
Theorem accepted_with_replacement a width p q : is_row p -> is_row q -> accepted a
  (position (draw_iid q width) (fun siblings => recursive_rejection true siblings p q))
  = Num.min (p a) (reach p q width * q a).
Proof.
move=> p_row q_row; rewrite accepted_in_turn; have [q0 _] := q_row.
elim: width [::] p p_row => [|width IH] drawn p p_row; have [p0 _] := p_row.
  rewrite (in_turn_end complete) // mul0r (min_idPr (p0 a)) big1 // => x _.
  by rewrite xpair_eqE andbF mulr0.
set r := normalised (N := field_numbers R) vocabulary (excess p q 1).
have on_row (d : seq T) : xpredT d -> is_row (drawn_from true q d) by [].
have on_draw (d : seq T) (f : T -> R) : xpredT d -> expected f (draw q) = \sum_x q x * f x.
  by move=> _; apply: (expected_draw_row complete).
have on_law (d : seq T) : xpredT d -> is_law (draw q) by move=> _; apply: (law_draw_row complete).
rewrite (in_turn_step complete on_row on_draw on_law
  (v := Num.min (r a) (reach r q width * q a))) //=; last by move=> r_row x; apply: IH.
under eq_bigr => x _ do rewrite xpair_eqE andbT.
rewrite sum_at; have [s0|s0] := eqVneq (owed p q) 0.
  have le : p a <= q a.
    by have /max_idPr := owed_all s0 a; rewrite subr_le0.
  rewrite s0 mul0r addr0 (min_idPr le) (min_idPl _) //.
  apply: le_trans le _; rewrite -[X in X <= _]mul1r; apply: ler_wpmul2r => //.
  exact: reach_ge1.
rewrite -[reach p q width + _]/(reach p q width.+1) reach_residual // -/r.
rewrite min_split ?mulr_ge0 ?owed_ge0 ?reach_ge0 //; last exact: (residual_row complete).
rewrite minr_pmulr ?owed_ge0 // (owed_residual complete) // [in LHS]mulrA.
by congr (_ + _).
Qed.
End RecursiveRejection.
