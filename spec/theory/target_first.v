(* Target first, and the naive tree rule.

   Target first: draw from the target, go on if the token was drafted; lossless for every law of
   siblings, and a token i is accepted with probability p(i) P(i was drafted). Naive: verify the
   first sibling as a single draft, go on if the result is any sibling; lossless if the first one,
   where there is one, alone has the draft's law, as with and without replacement. For every
   vocabulary, depth and pair of models. arXiv 2305.09781 (naive sampling); arXiv 2602.16994,
   appendix C. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent rejection.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T).

Definition target_first : rule N T := fun siblings p q =>
  token <- draw vocabulary p ;; ret _ (token, token \in siblings).

Definition naive_tree : rule N T := fun siblings p q =>
  '(token, _) <- accept_or_correct vocabulary (take 1 siblings) p q ;;
  ret _ (token, token \in siblings).
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
Local Notation draw_iid := (@draw_iid (field_numbers R) T vocabulary).
Local Notation target_first := (@target_first (field_numbers R) T vocabulary).
Local Notation naive_tree := (@naive_tree (field_numbers R) T vocabulary).
Implicit Types (p q : T -> R) (siblings : law (seq T)).

(* ------------------------------------------------------------------------------ target first *)
Lemma law_target_first s p q : is_row p -> is_law (target_first s p q).
Proof. by move=> ok; apply: law_bind => [|x]; [apply: (law_draw_row complete)|apply: law_ret]. Qed.
Lemma expected_target_first (f : T * bool -> R) s p q : is_row p ->
  expected f (target_first s p q) = \sum_x p x * f (x, x \in s).
Proof.
move=> p_row; rewrite expected_bind (expected_draw_row complete) //.
by apply: eq_bigr => x _; rewrite expected_ret.
Qed.
(* Target first goes on only at a token that is among the siblings. *)
Theorem target_first_drafted p q : goes_on_drafted (fun s => target_first s p q).
Proof.
rewrite /target_first => s chosen can; have [x _ {}can] := possible_bind can.
by rewrite (possible_ret can).
Qed.
(* Whatever the law of the siblings, the decision of target first is a law, and its token has the
   law p. *)
Theorem follows_target_first siblings p q : is_law siblings -> is_row p ->
  follows p (position siblings (fun s => target_first s p q)).
Proof.
move=> ok p_row; apply: follows_each => // [s _|a]; first exact: law_target_first.
have [_ total1] := ok; rewrite -[p a]mul1r -total1 -expected_const; apply: eq_expected => s.
by rewrite /probability expected_target_first //= sum_at.
Qed.
(* Target first accepts a token a with probability p(a) P(a is drafted). *)
Theorem accepted_target_first a siblings p q : is_row p ->
  accepted a (position siblings (fun s => target_first s p q)) = p a * drafted a siblings.
Proof.
move=> p_row; rewrite /accepted /drafted /probability expected_position -expected_mull.
apply: eq_expected => s; rewrite expected_target_first //.
rewrite -[RHS](sum_at (fun x => p x * (x \in s)%:R)).
by apply: eq_bigr => x _; rewrite xpair_eqE eqb_id andbC -mulrA -natrM mulnb.
Qed.
(* In a tree whose siblings are drawn by any laws, which may depend on all that was drawn on the way
   down, the outcome of target first is a law, balanced and lossless. *)
Theorem target_first_lossless (siblings : history T -> law (seq T)) depth
    (p q : seq T -> T -> R) :
  (forall h, is_law (siblings h)) -> is_model p ->
  let m := descend (N := field_numbers R) vocabulary p q siblings target_first depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> siblings_law p_model; apply: (descend_sound complete) => // h _ _.
exact: follows_target_first.
Qed.

(* ------------------------------------------------------------------------------------- naive *)
(* The first sibling, where there is one, has the law q. *)
Definition first_alone q siblings := forall x,
  probability (fun s => ohead s == Some x) siblings
  = probability (fun s => ~~ nilp s) siblings * q x.

Lemma possible_probability A (e : A -> bool) (m : law A) a :
  nonnegative m -> possible m a -> e a -> probability e m != 0.
Proof.
move=> m0 [w]; elim: m m0 => [|b m IH] m0 // + w0 ea.
have rest0 : nonnegative m by move=> c c_in; apply: m0; right.
have e0 : 0 <= probability e m by apply: expected_ge0 => // c; rewrite ler0n.
have b0 : 0 <= b.2 by apply: m0; left.
case=> [ba|a_in]; rewrite /probability expected_cons -/(probability e m).
  by rewrite ba ea mulr1 gt_eqF // ltr_paddr // lt_def w0 -[w]/((a, w).2) -ba.
have e_pos : 0 < probability e m by rewrite lt_def e0 IH.
by rewrite gt_eqF // ltr_paddl ?mulr_ge0 // ler0n.
Qed.
Lemma expected_first (f : option T -> R) q siblings : is_law siblings -> is_row q ->
  first_alone q siblings -> expected (fun s => f (ohead s)) siblings =
  probability (fun s => ~~ nilp s) siblings * (\sum_x q x * f (Some x))
  + probability (fun s => nilp s) siblings * f None.
Proof.
move=> _ _ alone; rewrite mulr_sumr.
under eq_bigr => x _ do rewrite mulrA -alone /probability -expected_mulr.
rewrite /probability -expected_mulr -expected_sum -expected_add; apply: eq_expected => -[|y s] /=.
  by rewrite mul1r big1 ?add0r // => x _; rewrite mul0r.
rewrite mul0r addr0 -[LHS](sum_at (fun x => f (Some x))); apply: eq_bigr => x _.
by rewrite mulrC eq_sym.
Qed.

Lemma law_naive_tree q siblings s p : is_law siblings -> is_row p -> is_row q ->
  first_alone q siblings -> possible siblings s -> is_law (naive_tree s p q).
Proof.
move=> [s0 _] p_row q_row alone can; apply: law_bind => [|[x goes_on]]; last exact: law_ret.
case: s can => [|x s] can.
  by apply: law_bind => [|y]; [apply: (law_draw_row complete)|apply: law_ret].
apply: (law_accept_or_correct complete) => //; apply/eqP => qx.
have := alone x; rewrite qx mulr0 => /eqP; apply/negP.
by apply: possible_probability can _ => //=.
Qed.
(* The naive tree rule goes on only at a token that is among the siblings. *)
Theorem naive_tree_drafted p q : goes_on_drafted (fun s => naive_tree s p q).
Proof.
rewrite /naive_tree => s chosen can; have [[x b] _ {}can] := possible_bind can.
by rewrite (possible_ret can).
Qed.
(* If the first sibling, where there is one, alone has the law q, the decision of the naive tree
   rule is a law, and its token has the law p. *)
Theorem follows_naive_tree siblings p q : is_law siblings -> is_row p -> is_row q ->
  first_alone q siblings -> follows p (position siblings (fun s => naive_tree s p q)).
Proof.
move=> ok p_row q_row alone; apply: follows_each => // [s|a]; first exact: law_naive_tree.
pose f (first : option T) := probability (fun c => c.1 == a)
  (accept_or_correct vocabulary (if first is Some x then [:: x] else [::]) p q : law (T * bool)).
transitivity (expected (fun s => f (ohead s)) siblings).
  apply: eq_expected => s; rewrite /probability expected_bind.
  have -> : take 1 s = if ohead s is Some x then [:: x] else [::] by case: s => [|x [|y s]].
  by apply: eq_expected => -[x b]; rewrite expected_ret.
rewrite (expected_first _ ok q_row alone).
have -> : \sum_x q x * f (Some x) = p a.
  rewrite /f /probability (expected_accept_or_correct complete) //=.
  under eq_bigr => x _ do rewrite -mulrDl min_plus_excess.
  exact: sum_at.
have -> : f None = p a.
  rewrite /f /probability expected_bind (expected_draw_row complete) // -[RHS](sum_at p).
  by apply: eq_bigr => x _; rewrite expected_ret.
rewrite -mulrDl; have [_ total1] := ok; rewrite -[RHS]mul1r -[in RHS]total1; congr (_ * _).
by rewrite /probability -expected_add; apply: eq_expected => -[|x s] /=; rewrite ?add0r ?addr0.
Qed.
(* In a tree whose siblings are drawn by laws that may depend on all that was drawn on the way down,
   and in which the first sibling of a node, where there is one, alone has the draft's law, the
   outcome of the naive tree rule is a law, balanced and lossless. *)
Theorem naive_tree_lossless (siblings : history T -> law (seq T)) depth (p q : seq T -> T -> R) :
  (forall h, is_law (siblings h) /\ first_alone (q (node h)) (siblings h)) ->
  is_model p -> is_model q ->
  let m := descend (N := field_numbers R) vocabulary p q siblings naive_tree depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> siblings_ok p_model q_model; apply: (descend_sound complete) => // h _ _.
by have [siblings_law alone] := siblings_ok h; apply: follows_naive_tree.
Qed.

(* Both schemes of siblings drawn one after another are such. *)
Lemma first_alone_draw_siblings replaced q width : is_row q ->
  first_alone q (draw_siblings vocabulary replaced q width).
Proof.
move=> q_row x; have [q0 q1] := q_row.
have -> : q x = drawn_from vocabulary replaced q [::] x.
  rewrite /drawn_from; case: replaced => //; rewrite (normalisedE complete) /without.
  by rewrite q1 divr1.
rewrite draw_siblingsE.
case: width => [|width]; first by rewrite /probability !expected_ret mul0r.
rewrite [one_by_one _ _ _ _ _]/=; case: ifP => [on|]; last first.
  case: replaced => // /negP[]; apply/(anyP complete); first exact: without_ge0.
  have [y qy] : exists y, q y != 0.
    apply/existsP; rewrite -negb_forall; apply/negP => /forallP all0.
    move: q1; rewrite big1 => [/eqP|y _]; first by rewrite eq_sym oner_eq0.
    by apply/eqP; apply: all0.
  by exists y; rewrite /without in_nil.
set others := one_by_one _ _ _ width.
have total1 d : expected (fun=> 1) (others d) = 1.
  by have [] := law_one_by_one (drawn_law complete q_row (replaced := replaced)) width d.
rewrite /probability !expected_bind !(draw_from complete q_row replaced [::]).
have [_ from1] := from_row complete q_row (replaced := replaced) (drawn := [::]) on.
rewrite [X in _ = X * _](_ : _ = 1) ?mul1r; last first.
  rewrite -[RHS]from1; apply: eq_bigr => y _; rewrite -[RHS]mulr1; congr (_ * _).
  by rewrite -[RHS](total1 [:: y]) expected_bind; apply: eq_expected => s; rewrite expected_ret.
rewrite -[RHS](sum_at (drawn_from vocabulary replaced q [::])); apply: eq_bigr => y _.
congr (_ * _); rewrite -[RHS]mul1r -(total1 [:: y]) -expected_const expected_bind.
by apply: eq_expected => s; rewrite expected_ret.
Qed.

Lemma naive_tree_siblings_lossless replaced widths depth (p q : seq T -> T -> R) :
  is_model p -> is_model q ->
  let m := descend (N := field_numbers R) vocabulary p q
    (on_demand (draw_siblings vocabulary replaced) widths q) naive_tree depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> p_model q_model; apply: naive_tree_lossless => // h.
by split; [apply: (law_draw_siblings complete)|apply: first_alone_draw_siblings].
Qed.
(* In a tree that draws its independent siblings on demand, as many after each copy of a node as its
   history says, the outcome of the naive tree rule is a law, balanced and lossless. *)
Theorem naive_tree_iid_lossless widths depth (p q : seq T -> T -> R) : is_model p -> is_model q ->
  let m := descend (N := field_numbers R) vocabulary p q (on_demand draw_iid widths q) naive_tree
    depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof. exact: (naive_tree_siblings_lossless true). Qed.
(* In a tree that draws its siblings on demand, as many after each copy of a node as its history
   says, without replacement until the draft has no more, the outcome of the naive tree rule is a
   law, balanced and lossless. *)
Theorem naive_tree_without_replacement_lossless widths depth (p q : seq T -> T -> R) :
  is_model p -> is_model q ->
  let m := descend (N := field_numbers R) vocabulary p q
    (on_demand (@draw_without_replacement (field_numbers R) T vocabulary) widths q) naive_tree
    depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof. exact: (naive_tree_siblings_lossless false). Qed.

(* Of K >= 1 independent siblings, the naive tree rule accepts a token a with probability
   min(p(a), q(a)) + max(p(a) - q(a), 0) (1 - (1 - q(a))^(K - 1)); here K - 1 = width. *)
Theorem accepted_naive_tree_iid a width p q : is_row p -> is_row q ->
  accepted a (position (draw_iid q width.+1) (fun s => naive_tree s p q))
  = Num.min (q a) (p a) + Num.max (p a - q a) 0 * (1 - (1 - q a) ^+ width).
Proof.
move=> p_row q_row; rewrite /accepted /probability expected_position (expected_iidS complete) //.
pose g (others : seq T) y (is_drafted : bool) : R :=
  ((y == a) && (is_drafted || (a \in others)))%:R.
transitivity (expected (fun others => \sum_x q x * expected (fun c => g others c.1 (c.1 == x))
    (accept_or_correct vocabulary [:: x] p q : law (T * bool))) (draw_iid q width)).
  rewrite expected_sum; apply: eq_bigr => x _; rewrite expected_mull; congr (_ * _).
  apply: eq_expected => others; have -> : naive_tree (x :: others) p q =
    ('(y, _) <- accept_or_correct vocabulary [:: x] p q ;;
      ret _ (y, y \in x :: others)) by rewrite /naive_tree [take _ _]/= take0.
  rewrite expected_bind.
  apply: eq_expected => -[y b]; rewrite expected_ret xpair_eqE eqb_id inE /g /=.
  by case: eqP => // ->.
under eq_expected => others do rewrite (expected_kept_or_corrected complete) // big_split /=.
rewrite expected_add /g; under eq_expected => others do under eq_bigr => x _ do rewrite andbT.
rewrite (eq_expected (g := fun=> Num.min (q a) (p a))) => [|others]; last exact: sum_at.
have [_ total1] := law_draw_iid complete q_row width.
rewrite expected_const total1 mul1r -(drafted_iid complete) //; congr (_ + _).
rewrite /drafted /probability -expected_mull; apply: eq_expected => others.
rewrite -[RHS](sum_at (fun x => Num.max (p x - q x) 0 * (a \in others)%:R)).
by apply: eq_bigr => x _; rewrite -mulrA -natrM mulnb andbC.
Qed.
End Theorems.
