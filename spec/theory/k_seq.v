(* K-SEQ: try i.i.d. siblings in turn, each against the target divided by one factor rho.

   A sibling is accepted with min(1, p / (rho q)); if none is, the token is drawn from the rest of
   p. Proved for every vocabulary, target, draft and number K of siblings: where that rest is not
   negative, the token has the target's law, and a sibling is accepted with probability
   1 - (1 - b)^K, b = sum of min(p / rho, q), shared in proportion to min(p / rho, q). The rest is
   not negative where rho >= 1 and 1 - (1 - b)^K <= rho b, and only there if some token has
   0 < p <= rho q; so a tree with such factors at its nodes is lossless: as with rho = K, or with
   one rho that is as large as the number of siblings of any node. arXiv 2310.15141,
   Algorithm 2. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent rejection.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T).
Local Open Scope number_scope.
Local Notation row := (row N T).
Implicit Types (p q : row) (rho : N) (siblings : seq T).

Definition overlap p q (scale : N) : N := total vocabulary (fun x => least (p x) (scale * q x)).

Definition is_valid_factor rho p q (width : nat) : bool :=
  (1 <= rho) && (let each := overlap q p (1 / rho) in 1 - power (1 - each) width <= rho * each).

(* The rest of p, not normalised. *)
Definition rest rho p q (width : nat) : row := fun x =>
  let each := overlap q p (1 / rho) in
  let scale := ratio_or_one (1 - power (1 - each) width) each in
  p x - scale * least (p x / rho) (q x).

Fixpoint accept_first rho siblings p q (correction : law N (T * bool)) : law N (T * bool) :=
  if siblings is token :: siblings' then
    accepts <- coin (least 1 (p token / (rho * q token))) ;;
    if accepts then ret _ (token, true) else accept_first rho siblings' p q correction
  else correction.

(* The factor may depend on the rows and on the number of siblings. *)
Definition k_seq (factor : row -> row -> nat -> N) : rule N T := fun siblings p q =>
  let width := size siblings in
  let rho := factor p q width in
  accept_first rho siblings p q
    (token <- draw vocabulary (rest rho p q width) ;; ret _ (token, false)).
End Programs.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments coin : simpl never.
Local Arguments expected : simpl never.
Local Arguments overlap : simpl never.
Local Arguments rest : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Theorems.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation draw := (@draw (field_numbers R) T vocabulary).
Local Notation draw_iid := (@draw_iid (field_numbers R) T vocabulary).
Local Notation k_seq := (@k_seq (field_numbers R) T vocabulary).
Local Notation rest := (@rest (field_numbers R) T vocabulary).
Local Notation is_valid_factor := (@is_valid_factor (field_numbers R) T vocabulary).
Local Notation accept_first := (@accept_first (field_numbers R) T).
Implicit Types (rho : R) (width : nat).

Section OnePosition.
Variables p q : T -> R.
Hypotheses (p_row : is_row p) (q_row : is_row q).
Variable rho : R.
Hypothesis rho_pos : 0 < rho.
Let p0 x : 0 <= p x. Proof. by case: p_row. Qed.
Let q0 x : 0 <= q x. Proof. by case: q_row. Qed.
Let p1 : \sum_x p x = 1. Proof. by case: p_row. Qed.
Let q1 : \sum_x q x = 1. Proof. by case: q_row. Qed.
Let chance x := Num.min 1 (p x / (rho * q x)).

(* What one sibling brings: share x = min(p x / rho, q x), of total b. *)
Definition share x : R := Num.min (p x / rho) (q x).
Definition b : R := \sum_x share x.
Definition scale width : R := if b == 0 then 1 else (1 - (1 - b) ^+ width) / b.

Lemma share_ge0 x : 0 <= share x.
Proof. by rewrite le_minr divr_ge0 ?(ltW rho_pos) //=. Qed.
Lemma b_ge0 : 0 <= b. Proof. by apply: sumr_ge0 => x _; apply: share_ge0. Qed.
Lemma b_le1 : b <= 1.
Proof. by rewrite -q1; apply: ler_sum => x _; rewrite le_minl lexx orbT. Qed.
Lemma share_b0 x : b = 0 -> share x = 0.
Proof.
move=> /eqP; rewrite psumr_eq0 => [/allP all0|y _]; last exact: share_ge0.
by apply/eqP/(implyP (all0 x _)); rewrite ?mem_index_enum.
Qed.
Lemma overlapE : overlap (N := field_numbers R) vocabulary q p (1 / rho) = b.
Proof.
rewrite /overlap (totalE complete); apply: eq_bigr => x _.
by rewrite leastE /= /share minC mulrC mul1r.
Qed.
Lemma restE width x : rest rho p q width x = p x - scale width * share x.
Proof.
rewrite /rest overlapE powerE /ratio_or_one leastE /= /scale /share.
by rewrite eq_le b_ge0 andbT.
Qed.
Lemma scale_b width : scale width * b = 1 - (1 - b) ^+ width.
Proof.
rewrite /scale; case: eqVneq => [->|b0]; first by rewrite subr0 expr1n subrr mulr0.
by rewrite mulfVK.
Qed.
Lemma scaleS width x : scale width.+1 * share x = share x + (1 - b) * (scale width * share x).
Proof.
rewrite /scale; case: eqVneq => [b0|b0]; first by rewrite share_b0 // !mulr0 addr0.
rewrite mulrA -{2}[share x]mul1r -mulrDl; congr (_ * _); apply: (mulIf b0).
rewrite [LHS]mulfVK // [RHS]mulrDl mul1r -[X in _ = _ + X]mulrA mulfVK // mulrBr mulr1 -exprS.
by rewrite addrA [b + _]addrC subrK.
Qed.
Lemma total_rest width : \sum_x rest rho p q width x = (1 - b) ^+ width.
Proof.
under eq_bigr => x _ do rewrite restE.
by rewrite sumrB p1 -mulr_sumr -/b scale_b opprB addrC subrK.
Qed.
Lemma chance01 x : 0 <= chance x <= 1.
Proof. by apply: min1_in01 => //; rewrite mulr_ge0 // ltW. Qed.
Lemma chance_share x : q x * chance x = share x.
Proof. by rewrite /chance invfM mulrA kept_share ?divr_ge0 ?(ltW rho_pos) // minC. Qed.

Let accepting width C (f : T * bool -> R) :=
  expected (fun s => expected f (accept_first rho s p q C)) (draw_iid q width).
Lemma accepting_value width (C : law (T * bool)) f : accepting width C f =
  \sum_x scale width * share x * f (x, true) + (1 - b) ^+ width * expected f C.
Proof.
elim: width => [|width IH]; rewrite /accepting.
  rewrite (expected_iid0 vocabulary) /= mul1r big1 ?add0r // => x _.
  have s0 : scale 0 * share x = 0.
    rewrite /scale; case: eqVneq => [b0|_]; first by rewrite share_b0 ?mulr0.
    by rewrite subrr !mul0r.
  by rewrite s0 mul0r.
rewrite (expected_iidS complete) //.
transitivity (\sum_x (share x * f (x, true) + (q x - share x) * accepting width C f)).
  apply: eq_bigr => x _; rewrite -chance_share -[X in (X - _) * _]mulr1 -mulrBr -!mulrA -mulrDr.
  congr (_ * _); have [_ total1] := law_draw_iid complete q_row width.
  have -> : chance x * f (x, true) = expected (fun=> chance x * f (x, true)) (draw_iid q width).
    by rewrite expected_const total1 mul1r.
  rewrite -expected_mull -expected_add; apply: eq_expected => s.
  by rewrite /= expected_bind expected_coin leastE expected_ret.
rewrite big_split -mulr_suml sumrB q1 -/b IH /= mulrDr mulrA -exprS addrA; congr (_ + _).
rewrite mulr_sumr -big_split /=; apply: eq_bigr => x _.
by rewrite scaleS [RHS]mulrDl -!mulrA.
Qed.

Variable width : nat.
Hypothesis rest_ge0 : forall x, 0 <= rest rho p q width x.
Let correction : law (T * bool) := token <- draw (rest rho p q width) ;; ret _ (token, false).

Lemma corrected f : (1 - b) ^+ width * expected f correction =
  \sum_x rest rho p q width x * f (x, false).
Proof.
rewrite expected_bind (expected_draw complete) total_rest mulr_sumr.
apply: eq_bigr => x _; rewrite expected_ret mulrA; congr (_ * _).
have [none|some] := eqVneq ((1 - b) ^+ width) 0; last by rewrite mulrCA divff ?mulr1.
move/eqP: (total_rest width); rewrite none psumr_eq0 => [/allP all0|y _]; last exact: rest_ge0.
by rewrite mul0r; apply/esym/eqP/(implyP (all0 x _)); rewrite ?mem_index_enum.
Qed.
Lemma law_correction : (1 - b) ^+ width != 0 -> is_law correction.
Proof.
move=> some; apply: law_bind => [|x]; last exact: law_ret.
by apply: (law_draw complete) => //; rewrite total_rest lt_def some exprn_ge0 // subr_ge0 b_le1.
Qed.
Lemma refusable x : q x != 0 -> 1 - chance x != 0 -> b != 1.
Proof.
move=> qx cx; apply/eqP => b1; suff : q x * (1 - chance x) == 0.
  by rewrite mulf_eq0 (negbTE qx) (negbTE cx).
have /eqP : \sum_y (q y - share y) = 0 by rewrite sumrB q1 -/b b1 subrr.
rewrite psumr_eq0 => [/allP all0|y _]; last by rewrite subr_ge0 le_minl lexx orbT.
by rewrite mulrBr mulr1 chance_share; apply: (implyP (all0 x _)); rewrite ?mem_index_enum.
Qed.
Lemma law_accept_first n drawn s : (b = 1 -> n = width) ->
  possible (one_by_one (N := field_numbers R) vocabulary (fun=> q) xpredT n drawn) s ->
  is_law (accept_first rho s p q correction).
Proof.
elim: n drawn s => [|n IH] drawn s whole /= can.
  rewrite (possible_ret can) /=; apply: law_correction.
  have [b1|b1] := eqVneq b 1; first by rewrite -(whole b1) expr0 oner_neq0.
  by rewrite expf_neq0 // subr_eq0 eq_sym.
have [x x_drawn {}can] := possible_bind can.
have [others others_drawn {}can] := possible_bind can; rewrite (possible_ret can) /= leastE.
have c01 := chance01 x.
apply: law_bind_possible => [|[] /possible_coin /=]; [exact: law_coin|by move=> _; exact: law_ret|].
have qx : q x != 0.
  by move/possible_draw: x_drawn; rewrite (normalisedE complete) q1 divr1.
move=> refused; apply: IH others_drawn => b1.
by have := refusable qx refused; rewrite b1 eqxx.
Qed.
End OnePosition.

Lemma size_draw_iid (q : T -> R) width s : possible (draw_iid q width) s -> size s = width.
Proof.
rewrite /rejection.draw_iid; elim: width [::] s => [|width IH] drawn s /= can.
  by rewrite (possible_ret can).
have [x _ {}can] := possible_bind can.
by have [others /IH <- {}can] := possible_bind can; rewrite (possible_ret can).
Qed.

(* Where rho >= 1 and 1 - (1 - b)^K <= rho b, b the sum of min(p / rho, q), the rest of p after K
   siblings is nowhere negative. *)
Theorem rest_ge0 rho (p q : T -> R) width : is_row p -> is_row q ->
  is_valid_factor rho p q width -> 0 < rho /\ forall x, 0 <= rest rho p q width x.
Proof.
move=> p_row q_row /andP[/= rho1]; have rho0 : 0 < rho := lt_le_trans ltr01 rho1.
rewrite overlapE // powerE => valid; split=> // x; rewrite restE // subr_ge0.
have [p0 _] := p_row; have s0 := share_ge0 p_row q_row rho0 x.
have le_p : rho * share p q rho x <= p x.
  by rewrite -ler_pdivl_mull // mulrC le_minl lexx.
apply: le_trans le_p; rewrite /scale; case: eqVneq => [b0|b0].
  by rewrite (share_b0 p_row q_row) // !mulr0.
apply: ler_wpmul2r => //; rewrite ler_pdivr_mulr //.
by rewrite lt_def b0 b_ge0.
Qed.
(* For rho > 0 and K >= 1 siblings, where the rest of p is not negative at one token with
   0 < p <= rho q, rho is at least 1 and 1 - (1 - b)^K <= rho b, b the sum of min(p / rho, q). *)
Theorem rest_needs rho (p q : T -> R) width x : is_row p -> is_row q -> 0 < rho ->
  (0 < width)%N -> 0 < p x <= rho * q x -> 0 <= rest rho p q width x ->
  is_valid_factor rho p q width.
Proof.
move=> p_row q_row rho0 some /andP[px le]; rewrite restE // subr_ge0.
have shareE : share p q rho x = p x / rho.
  by apply/min_idPl; rewrite ler_pdivr_mulr // mulrC.
have s0 : 0 < share p q rho x by rewrite shareE divr_gt0.
have b0 : 0 < b p q rho.
  rewrite /b (bigD1 x) //= ltr_paddr // sumr_ge0 // => y _; exact: share_ge0.
have b1 := b_le1 p q_row rho.
rewrite /scale gt_eqF // shareE mulrCA ger_pmulr // ler_pdivr_mulr // mul1r.
rewrite ler_pdivr_mulr // => valid; rewrite /is_valid_factor overlapE // powerE /= valid andbT.
rewrite -(ler_pmul2r b0) mul1r; apply: le_trans valid.
rewrite ler_subr_addl -ler_subr_addr.
case: width some => // width _; rewrite exprS ler_pimulr ?subr_ge0 //.
by rewrite exprn_ile1 ?subr_ge0 // ler_subl_addr ler_addl ltW.
Qed.

Section Factor.
Variables (p q : T -> R) (factor : (T -> R) -> (T -> R) -> nat -> R) (width : nat).
Hypotheses (p_row : is_row p) (q_row : is_row q).
Let rho := factor p q width.
Hypotheses (rho_pos : 0 < rho) (rest_nonnegative : forall x, 0 <= rest rho p q width x).
Local Notation outcome := (position (draw_iid q width) (fun s => k_seq factor s p q)).

Lemma law_k_seq s : possible (draw_iid q width) s -> is_law (k_seq factor s p q).
Proof.
move=> can; rewrite /k_seq (size_draw_iid can).
exact: (law_accept_first p_row q_row rho_pos rest_nonnegative (fun=> erefl) can).
Qed.
(* Where the rest of p is nowhere negative, K-SEQ with K siblings accepts a token with
   s min(p / rho, q), and draws it otherwise with p - s min(p / rho, q): s = (1 - (1 - b)^K) / b, 1
   where b = 0, and b the sum of min(p / rho, q). *)
Theorem expected_k_seq (f : T * bool -> R) : expected (fun d => f d.2) outcome =
  \sum_x (scale p q rho width * share p q rho x * f (x, true)
          + rest rho p q width x * f (x, false)).
Proof.
rewrite expected_position big_split /= -corrected //.
rewrite -(accepting_value p_row q_row rho_pos).
by apply: eq_expected_possible => s can; rewrite /k_seq (size_draw_iid can).
Qed.
(* Where the rest of p is nowhere negative, the decision of K-SEQ is a law, and its token has the
   law p. *)
Theorem follows_k_seq : follows p outcome.
Proof.
split=> [|a]; first by apply: law_position; [apply: law_draw_iid|apply: law_k_seq].
rewrite /probability (expected_k_seq (fun c => (c.1 == a)%:R)) /=.
under eq_bigr => x _ do rewrite -mulrDl restE // addrC subrK.
exact: sum_at.
Qed.
(* Where the rest of p is nowhere negative, a token a is accepted, with K siblings, with
   s min(p(a) / rho, q(a)): s = (1 - (1 - b)^K) / b, 1 where b = 0, and b the sum of
   min(p / rho, q). *)
Theorem accepted_k_seq a : accepted a outcome = scale p q rho width * share p q rho a.
Proof.
rewrite /accepted /probability (expected_k_seq (fun c => (c == (a, true))%:R)).
under eq_bigr => x _ do rewrite !xpair_eqE andbT andbF mulr0 addr0.
exact: sum_at.
Qed.
(* Where the rest of p is nowhere negative, any of K siblings is accepted with 1 - (1 - b)^K, b the
   sum of min(p / rho, q). *)
Theorem value_k_seq : probability (fun d => d.2.2) outcome = 1 - (1 - b p q rho) ^+ width.
Proof.
rewrite /probability (expected_k_seq (fun c => c.2%:R)) /=.
by under eq_bigr => x _ do rewrite mulr1 mulr0 addr0; rewrite -mulr_sumr scale_b.
Qed.
End Factor.

Lemma accept_first_drafted rho (p q : T -> R) (C : law (T * bool)) :
  (forall chosen, possible C chosen -> ~~ chosen.2) ->
  goes_on_drafted (fun s => accept_first rho s p q C).
Proof.
move=> never s chosen; elim: s => [|x s IH] /=; first by move/never/negbTE => ->.
move=> can; have [[] _ {}can] := possible_bind can; first by rewrite (possible_ret can) mem_head.
by move=> /(IH can) there; rewrite inE there orbT.
Qed.
(* K-SEQ goes on only at a token that is among the siblings. *)
Theorem k_seq_drafted factor (p q : T -> R) : goes_on_drafted (fun s => k_seq factor s p q).
Proof.
move=> s; apply: accept_first_drafted => chosen can.
by have [y _ {}can] := possible_bind can; rewrite (possible_ret can).
Qed.

(* For K siblings, every whole number rho that is at least 1 and at least K is valid for all rows:
   1 - (1 - b)^K <= rho b, b the sum of min(p / rho, q). *)
Theorem width_is_valid (p q : T -> R) count width : is_row p -> is_row q ->
  (0 < count)%N -> (width <= count)%N -> is_valid_factor count%:R p q width.
Proof.
move=> p_row q_row some most; have rho0 : 0 < count%:R :> R by rewrite ltr0n.
rewrite /is_valid_factor overlapE // powerE /= ler1n some /=.
have b1 := b_le1 p q_row count%:R; have b0 := b_ge0 p_row q_row rho0.
move: (b _ _ _) b0 b1 => c c0 c1 {rho0}.
apply: (@le_trans _ _ (width%:R * c)); last by rewrite ler_wpmul2r // ler_nat.
elim: width {most} => [|width IH]; first by rewrite expr0 subrr mul0r.
rewrite exprS mulrBl mul1r opprB addrCA [width.+1%:R]mulrSr mulrDl mul1r.
rewrite [X in _ <= X]addrC ler_add //.
by rewrite -[X in _ <= X]mulr1 ler_wpmul2l // exprn_ile1 ?subr_ge0 // ler_subl_addr ler_addl.
Qed.

(* In a tree that draws its independent siblings on demand, as many after each copy of a node as its
   history says, and where the factor is valid at every node that can be reached, for its rows and
   its number of siblings, the outcome of K-SEQ is a law, balanced and lossless. *)
Theorem k_seq_lossless factor widths depth (p q : seq T -> T -> R) :
  let siblings := on_demand draw_iid widths q in
  (forall h, reachable p q siblings (k_seq factor) h -> (size h < depth)%N ->
    let width := (copies h * widths h)%N in
    is_valid_factor (factor (p (node h)) (q (node h)) width) (p (node h)) (q (node h)) width) ->
  is_model p -> is_model q ->
  let m := descend (N := field_numbers R) vocabulary p q siblings (k_seq factor) depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> siblings valid p_model q_model; apply: (descend_sound complete) => // h reached inside.
have [rho_pos nonnegative] := rest_ge0 (p_model _) (q_model _) (valid h reached inside).
exact: follows_k_seq.
Qed.
(* In a tree that draws its independent siblings on demand, as many after each copy of a node as its
   history says, but at most K after any node that can be reached, K >= 1, the outcome of K-SEQ with
   rho = K at every node is a law, balanced and lossless. *)
Theorem k_seq_constant_lossless count widths depth (p q : seq T -> T -> R) :
  let siblings := on_demand draw_iid widths q in
  let rule := k_seq (fun _ _ _ => count%:R) in
  (0 < count)%N ->
  (forall h, reachable p q siblings rule h -> (size h < depth)%N ->
    (copies h * widths h <= count)%N) ->
  is_model p -> is_model q ->
  let m := descend (N := field_numbers R) vocabulary p q siblings rule depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> siblings rule some most p_model q_model; apply: k_seq_lossless => // h reached inside.
by apply: width_is_valid => //; apply: most.
Qed.
(* In a tree that draws its independent siblings on demand, as many after each copy of a node as its
   history says, the outcome of K-SEQ with rho = K at every node, K the number of its siblings, and
   rho = 1 where it has none, is a law, balanced and lossless. *)
Theorem k_seq_width_lossless widths depth (p q : seq T -> T -> R) : is_model p -> is_model q ->
  let m := descend (N := field_numbers R) vocabulary p q (on_demand draw_iid widths q)
    (k_seq (fun _ _ width => (maxn 1 width)%:R)) depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> p_model q_model; apply: k_seq_lossless => // h _ _.
by apply: width_is_valid => //; rewrite leq_max ?leqnn ?orbT.
Qed.
End Theorems.
