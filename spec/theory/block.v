(* Block verification: keep the longest prefix that the target can afford, then correct.

   Proved for every vocabulary, length and pair of models: the law of what is accepted and of the
   next token, the expected accepted length, that the text has the target's law at every horizon,
   and that no lossless verifier of one path that leaves the target as it is, of which it is one
   itself, accepts any prefix more often or more tokens.
   arXiv 2403.10444, Algorithm 2. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T) (p q : model N T).
Local Open Scope number_scope.

(* The weight of a prefix z goes on to za. *)
Definition weight_after (z : seq T) (w : N) (a : T) : N := least 1 (w * p z a / q z a).

(* The coin of a prefix that is not the whole path. *)
Definition pass_probability (z : seq T) (w : N) : N :=
  let mass := total vocabulary (excess (p z) (q z) w) in ratio_or_one mass (mass + (1 - w)).

(* What is kept of the tokens `rest` that follow z, and the law of the next token, if the coin of z
   or one after it passes; coins are thrown from the end of the path. *)
Fixpoint longest (rest z : seq T) (w : N) : law N (option (seq T * row N T)) :=
  if rest is a :: rest' then
    later <- longest rest' (rcons z a) (weight_after z w a) ;;
    if later is Some (kept, next) then ret _ (Some (a :: kept, next)) else
    passes <- coin (pass_probability z w) ;;
    ret _ (if passes then Some ([::], excess (p z) (q z) w) else None)
  else
    passes <- coin w ;; ret _ (if passes then Some ([::], p z) else None).

(* The empty prefix needs no coin. *)
Definition keep (path : seq T) : law N (seq T * row N T) :=
  if path is a :: rest then
    later <- longest rest [:: a] (weight_after [::] 1 a) ;;
    if later is Some (kept, next) then ret _ (a :: kept, next) else
    ret _ ([::], excess (p [::]) (q [::]) 1)
  else ret _ ([::], p [::]).

Definition verify (path : seq T) : law N (emission T) :=
  kept <- keep path ;; next <- draw vocabulary kept.2 ;; ret _ (kept.1, next).

Definition block (length : nat) : law N (emission T) :=
  drafted <- path vocabulary q length [::] ;; verify drafted.

(* The probability that x, after z of weight w, is drafted and kept. *)
Fixpoint kept_mass (x z : seq T) (w : N) : N :=
  if x is a :: x' then q z a * kept_mass x' (rcons z a) (weight_after z w a) else w.
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
Variables p q : seq T -> T -> R.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Local Notation law := (law (field_numbers R)).
Local Notation longest := (@longest (field_numbers R) T vocabulary p q).
Local Notation keep := (@keep (field_numbers R) T vocabulary p q).
Local Notation verify := (@verify (field_numbers R) T vocabulary p q).
Local Notation block := (@block (field_numbers R) T vocabulary p q).
Local Notation path := (@path (field_numbers R) T vocabulary q).
Local Notation draw := (@draw (field_numbers R) T vocabulary).
Local Notation kept_mass := (@kept_mass (field_numbers R) T p q).
Local Notation weight_after := (@weight_after (field_numbers R) T p q).
Local Notation pass_probability := (@pass_probability (field_numbers R) T vocabulary p q).
Local Notation excess := (@excess (field_numbers R) T).
Implicit Types (w : R) (z x t : seq T).

Let p0 z a : 0 <= p z a. Proof. by case: (p_model z). Qed.
Let q0 z a : 0 <= q z a. Proof. by case: (q_model z). Qed.
Let p1 z : \sum_a p z a = 1. Proof. by case: (p_model z). Qed.
Let q1 z : \sum_a q z a = 1. Proof. by case: (q_model z). Qed.

Lemma weight_afterE z w a : weight_after z w a = Num.min 1 (w * p z a / q z a).
Proof. exact: leastE. Qed.
Lemma weight_after01 z w a : 0 <= w -> 0 <= weight_after z w a <= 1.
Proof. by move=> w0; rewrite weight_afterE min1_in01 // mulr_ge0. Qed.
Lemma excessE z w a : excess (p z) (q z) w a = Num.max (w * p z a - q z a) 0.
Proof. exact: positive_partE. Qed.
Lemma excess_ge0 z w a : 0 <= excess (p z) (q z) w a.
Proof. by rewrite excessE le_maxr lexx orbT. Qed.

Definition owed z w := \sum_a Num.max (w * p z a - q z a) 0.
Lemma total_excess z w : total vocabulary (excess (p z) (q z) w) = owed z w.
Proof. by rewrite (totalE complete); apply: eq_bigr => a _; rewrite excessE. Qed.
Lemma refused z w : 0 <= w ->
  \sum_a q z a * (1 - weight_after z w a) = owed z w + (1 - w).
Proof.
move=> w0; under eq_bigr => a _ do rewrite weight_afterE.
by apply: rejected; rewrite ?q1 -?mulr_sumr ?p1 ?mulr1 // => a; rewrite mulr_ge0.
Qed.
Lemma pass_probabilityE z w : 0 <= w <= 1 ->
  [/\ 0 <= pass_probability z w <= 1
    & pass_probability z w * (owed z w + (1 - w)) = owed z w].
Proof.
move=> /andP[w0 w1]; rewrite /pass_probability total_excess /ratio_or_one /=.
have s0 : 0 <= owed z w by apply: owed_ge0.
have rest0 : 0 <= 1 - w by rewrite subr_ge0.
case: (lerP (owed z w + (1 - w)) 0) => [le0|gt0].
  have sum0 : owed z w + (1 - w) = 0 by apply/eqP; rewrite eq_le le0 addr_ge0.
  rewrite ler01 lexx sum0 mulr0; split=> //.
  by apply/esym/eqP; rewrite eq_le s0 andbT -sum0 ler_addl.
rewrite divr_ge0 ?(ltW gt0) // ler_pdivr_mulr // mul1r ler_addl rest0; split=> //.
by rewrite mulfVK ?gt_eqF.
Qed.

(* An outcome below a prefix, with its next token drawn. *)
Let finished (kept : option (seq T * (T -> R))) : law (option (emission T)) :=
  if kept is Some (accepted, next) then
    y <- draw next ;; ret _ (Some (accepted, y)) else ret _ None.
Let below n z w : law (option (emission T)) :=
  drafted <- path n z ;; kept <- longest drafted z w ;; finished kept.
Let missing (e : option (emission T)) : R := if e is None then 1 else 0.
Let on_first f a (e : option (emission T)) : R :=
  if e is Some (accepted, y) then f (Some (a :: accepted, y)) else 0.

Let below_zero f z w : expected f (below 0 z w) =
  w * (\sum_y p z y * f (Some ([::], y))) + (1 - w) * f None.
Proof.
rewrite /below !expected_bind expected_ret !expected_bind expected_coin !expected_ret /=.
rewrite expected_bind (expected_draw_row complete) //; congr (_ * _ + _).
by apply: eq_bigr => y _; rewrite expected_ret.
Qed.

Let below_step f n z w : expected f (below n.+1 z w) = \sum_a q z a *
  (expected (on_first f a) (below n (rcons z a) (weight_after z w a))
   + expected missing (below n (rcons z a) (weight_after z w a)) *
     (pass_probability z w * expected f (finished (Some ([::], excess (p z) (q z) w)))
      + (1 - pass_probability z w) * f None)).
Proof.
rewrite [LHS]expected_bind [LHS]expected_bind [LHS](expected_draw_row complete) //.
apply: eq_bigr => a _; congr (_ * _); rewrite /below !expected_bind -expected_mulr -expected_add.
apply: eq_expected => drafted; rewrite expected_ret !expected_bind.
rewrite -expected_mulr -expected_add; apply: eq_expected => -[[accepted next]|] /=.
  rewrite !expected_ret /= !expected_bind -expected_mulr -expected_add.
  by apply: eq_expected => y; rewrite !expected_ret /= mul0r addr0.
by rewrite expected_bind expected_coin !expected_ret /= ?expected_ret expected_bind mul1r add0r.
Qed.

(* The law of what is kept below a prefix, by induction on the tokens that are left. *)
Let starts x (e : option (emission T)) : R := if e is Some e then (prefix x e.1)%:R else 0.
Let is_end x y (e : option (emission T)) : R := if e is Some e then (e == (x, y))%:R else 0.

(* P(kept = x and next = y), after z of weight w with n tokens to come. *)
Fixpoint end_mass (n : nat) x (y : T) z w : R :=
  match x, n with
  | a :: x', n'.+1 => q z a * end_mass n' x' y (rcons z a) (weight_after z w a)
  | [::], 0%N => w * p z y
  | [::], _.+1 => Num.max (w * p z y - q z y) 0
  | _ :: _, 0%N => 0
  end.

Let corrected f z w : owed z w * expected f (finished (Some ([::], excess (p z) (q z) w))) =
  \sum_y Num.max (w * p z y - q z y) 0 * f (Some ([::], y)).
Proof.
rewrite /finished expected_bind (expected_draw complete).
have -> : \sum_y excess (p z) (q z) w y = owed z w by apply: eq_bigr => y _; rewrite excessE.
rewrite mulr_sumr; apply: eq_bigr => y _; rewrite expected_ret excessE mulrA; congr (_ * _).
have [s0|ns] := eqVneq (owed z w) 0; last by rewrite mulrCA divff ?mulr1.
by rewrite s0 mul0r; symmetry; apply: owed_all s0 y.
Qed.

Let missing_mass n z w : 0 <= w <= 1 -> expected missing (below n z w) = 1 - w.
Proof.
elim: n z w => [|n IH] z w w01.
  by rewrite below_zero /= big1 => [|y _]; rewrite ?mulr0 // add0r mulr1.
have [_ passed] := pass_probabilityE z w01; have /andP[w0 _] := w01.
rewrite below_step.
have none a e : on_first missing a e = 0 by case: e => [[]|].
under eq_bigr => a _.
  rewrite (eq_expected _ (none a)) expected_zero add0r IH ?weight_after01 //.
  rewrite [missing None]/= mulr1 mulrA; over.
rewrite -mulr_suml refused //.
have -> : expected missing (finished (Some ([::], excess (p z) (q z) w))) = 0.
  by rewrite expected_bind -[RHS](expected_zero (draw (excess (p z) (q z) w)));
     apply: eq_expected => y; rewrite expected_ret.
by rewrite mulr0 add0r mulrBr mulr1 [_ * pass_probability z w]mulrC passed addrAC subrr add0r.
Qed.

Let below_next f n z w : 0 <= w <= 1 -> f None = 0 -> expected f (below n.+1 z w) =
  (\sum_a q z a * expected (on_first f a) (below n (rcons z a) (weight_after z w a)))
  + \sum_y Num.max (w * p z y - q z y) 0 * f (Some ([::], y)).
Proof.
move=> w01 f0; have [_ passed] := pass_probabilityE z w01; have /andP[w0 _] := w01.
rewrite below_step f0 mulr0 addr0; under eq_bigr => a _.
  rewrite missing_mass ?weight_after01 // mulrDr [X in _ + X]mulrA; over.
by rewrite big_split /= -mulr_suml refused // mulrA [_ * pass_probability z w]mulrC passed corrected.
Qed.

Lemma starts_mass n x z w : 0 <= w <= 1 -> (size x <= n)%N ->
  expected (starts x) (below n z w) = kept_mass x z w.
Proof.
elim: n x z w => [|n IH] [|a x] z w w01 // len.
- rewrite below_zero /= mulr0 addr0; under eq_bigr => y _ do rewrite mulr1.
  by rewrite p1 mulr1.
- have /andP[w0 _] := w01; rewrite below_next //.
  have first a : expected (on_first (starts [::]) a) (below n (rcons z a) (weight_after z w a))
      = weight_after z w a.
    rewrite -[RHS]/(kept_mass [::] (rcons z a) (weight_after z w a)) -IH ?weight_after01 //.
    by apply: eq_expected => -[[u y]|] //=; rewrite !prefix0s.
  under eq_bigr => a _ do rewrite first.
  under [X in _ + X]eq_bigr => y _ do rewrite /= mulr1.
  have := refused z w0; under eq_bigr => a _ do rewrite mulrBr mulr1.
  rewrite sumrB q1 => /(congr1 (fun c => 1 - c)); rewrite opprB addrC addrNK => ->.
  by rewrite -/(owed z w) opprD opprB addrCA [1 + _]addrC addrNK addrAC addNr add0r.
rewrite below_next // [X in _ + X]big1 ?addr0 => [|y _]; last by rewrite /= mulr0.
rewrite /= -(sum_at (fun b => q z b * kept_mass x (rcons z b) (weight_after z w b))).
have /andP[w0 _] := w01; apply: eq_bigr => b _; rewrite -mulrA; congr (_ * _).
rewrite -(IH x) ?weight_after01 // -expected_mulr; apply: eq_expected => -[[u y]|] /=.
  by rewrite [a == b]eq_sym; case: eqP => _; rewrite ?mulr1 ?mulr0.
by rewrite mul0r.
Qed.

Lemma starts_none n x z w : 0 <= w <= 1 -> (n < size x)%N -> expected (starts x) (below n z w) = 0.
Proof.
elim: n x z w => [|n IH] [|a x] z w w01 //= len.
  by rewrite below_zero big1 /= => [|y _]; rewrite ?mulr0 ?addr0.
have /andP[w0 _] := w01; rewrite below_next // !big1 ?addr0 // => [y _|b _]; rewrite ?mulr0 //.
rewrite -[RHS](mulr0 (q z b * (b == a)%:R)) -(IH x (rcons z b) (weight_after z w b)) //;
  last exact: weight_after01.
rewrite -mulrA; congr (_ * _); rewrite -expected_mull; apply: eq_expected => -[[u y]|] /=.
  by rewrite [a == b]eq_sym; case: eqP => _; rewrite ?mul1r ?mul0r.
by rewrite mulr0.
Qed.

Lemma is_end_mass n x y z w : 0 <= w <= 1 ->
  expected (is_end x y) (below n z w) = end_mass n x y z w.
Proof.
elim: n x z w => [|n IH] x z w w01.
  rewrite below_zero /= mulr0 addr0; case: x => [|a x] /=; last first.
    by rewrite big1 ?mulr0 // => b _; rewrite mulr0.
  by congr (_ * _); rewrite -[RHS](sum_at (p z)); apply: eq_bigr => b _; rewrite xpair_eqE eqxx.
rewrite below_next //; case: x => [|a x].
  rewrite big1 ?add0r => [|a _]; last first.
    have none e : on_first (is_end [::] y) a e = 0 by case: e => [[]|].
    by rewrite (eq_expected _ none) expected_zero mulr0.
  rewrite /= -(sum_at (fun b => Num.max (w * p z b - q z b) 0) y).
  by apply: eq_bigr => b _; rewrite /= xpair_eqE eqxx.
rewrite [X in _ + X]big1 ?addr0 => [|b _]; last by rewrite /= mulr0.
rewrite /= -(sum_at (fun b => q z b * end_mass n x y (rcons z b) (weight_after z w b))).
have /andP[w0 _] := w01; apply: eq_bigr => b _; rewrite -mulrA; congr (_ * _).
rewrite -(IH x) ?weight_after01 // -expected_mulr; apply: eq_expected => -[[u c]|] /=.
  by rewrite !xpair_eqE eqseq_cons; case: (b == a); rewrite ?mulr1 ?mulr0.
by rewrite mul0r.
Qed.

(* Block verification itself: the coin of the empty prefix would always pass. *)
Let if_some (f : emission T -> R) (e : option (emission T)) : R := if e is Some e then f e else 0.

Let sure z : pass_probability z 1 = 1.
Proof.
rewrite /pass_probability total_excess /ratio_or_one /= subrr addr0.
by case: lerP => // pos; rewrite divff ?gt_eqF.
Qed.

Lemma verify_longest f x : expected f (verify x) =
  expected (if_some f) (kept <- longest x [::] 1 ;; finished kept).
Proof.
rewrite /verify !expected_bind; case: x => [|a x] /=.
  rewrite [LHS]expected_ret [RHS]expected_bind expected_coin subrr mul0r addr0 mul1r.
  rewrite expected_ret /= !expected_bind.
  by apply: eq_expected => y; rewrite !expected_ret.
rewrite !expected_bind; apply: eq_expected => -[[accepted next]|] /=.
  by rewrite !expected_ret /= !expected_bind; apply: eq_expected => y; rewrite !expected_ret.
rewrite [RHS]expected_bind expected_coin sure subrr mul0r addr0 mul1r.
rewrite !expected_ret /= !expected_bind.
by apply: eq_expected => y; rewrite !expected_ret.
Qed.

Lemma block_below f n : expected f (block n) = expected (if_some f) (below n [::] 1).
Proof. by rewrite !expected_bind; apply: eq_expected => x; rewrite verify_longest expected_bind. Qed.

(* The probability that block verification accepts at least x is b(x), for at most n tokens, with
   b() = 1 and b(xa) = min(b(x) p(a|x), q(xa)); it accepts no more than n. *)
Theorem block_accepts n x :
  accepts x (block n) = if (size x <= n)%N then kept_mass x [::] 1 else 0.
Proof.
have same : accepts x (block n) = expected (starts x) (below n [::] 1).
  by rewrite /accepts /probability block_below; apply: eq_expected => -[e|].
have one01 : 0 <= (1 : R) <= 1 by rewrite ler01 lexx.
by rewrite same; case: leqP => len; [rewrite starts_mass|rewrite starts_none].
Qed.

(* The probability that block verification accepts x alone and that y is next is q(x) w p(y|x) if x
   has n tokens, and q(x) max(w p(y|x) - q(y|x), 0) if it has fewer; the weight w is 1 for the empty
   text, and min(1, w p(a|z) / q(a|z)) for za where it is w for z. *)
Theorem block_ends n x y : ends x y (block n) = end_mass n x y [::] 1.
Proof.
by rewrite /ends /probability block_below -is_end_mass ?ler01 ?lexx //.
Qed.

(* The text: what is kept of a prefix goes on as the target does. *)
Let balance n x y z w : 0 <= w -> (size x <= n)%N ->
  (if (size x < n)%N then kept_mass (rcons x y) z w else 0) + end_mass n x y z w
  = kept_mass x z w * p (z ++ x) y.
Proof.
elim: n x z w => [|n IH] [|a x] z w w0 //= len; rewrite ?cats0.
- by rewrite add0r.
- by rewrite weight_afterE kept_share ?mulr_ge0 // min_plus_excess.
have /andP[w'0 _] := weight_after01 z a w0.
have := IH x (rcons z a) _ w'0 len; rewrite ltnS cat_rcons => e.
by rewrite -mulrA -e mulrDr; congr (_ + _); case: ifP => _; rewrite ?mulr0.
Qed.

(* Block verification is balanced: after every x, what is accepted of xa and what ends at x with a
   next make up P(x is accepted) p(a|x). *)
Theorem block_balanced n : balanced p (block n).
Proof.
move=> x y; rewrite !block_accepts block_ends size_rcons.
case: (leqP (size x) n) => len; first by rewrite balance ?ler01.
rewrite mul0r ltnNge ltnW //= add0r; elim: n x [::] (1 : R) len => [|n IH] [|a x] z w //= len.
by rewrite IH ?mulr0.
Qed.

(* The outcome is a law. *)
Lemma nonnegative_bind_in A B (m : law A) (k : A -> law B) : nonnegative m ->
  (forall a, List.In a m -> nonnegative (k a.1)) -> nonnegative (x <- m ;; k x).
Proof.
move=> m0 k0 b /in_bind[a [c [a_in c_in ->]]] /=.
by apply: mulr_ge0; [apply: m0|apply: k0 a_in _ c_in].
Qed.
Let ok_row (kept : option (seq T * (T -> R))) :=
  if kept is Some (_, next) then forall y, 0 <= next y else True.
Let longest_ok x z w : 0 <= w <= 1 ->
  nonnegative (longest x z w) /\ forall o, List.In o (longest x z w) -> ok_row o.1.
Proof.
elim: x z w => [|a x IH] z w w01 /=.
  split; first by apply: nonnegative_bind (nonnegative_coin w01) _ => b; apply: nonnegative_ret.
  by move=> o [<-|[<-|[]]] //= y; apply: p0.
have [later0 later_ok] := IH (rcons z a) _ (weight_after01 z a (proj1 (andP w01))).
have [pass01 _] := pass_probabilityE z w01; split.
  apply: nonnegative_bind later0 _ => -[[kept next]|]; first exact: nonnegative_ret.
  by apply: nonnegative_bind (nonnegative_coin pass01) _ => b; apply: nonnegative_ret.
move=> o /in_bind[[[[kept next]|] c] [d [/later_ok ok + ->]]] /=; first by move=> [<-|[]].
by move=> /in_bind[[[] e] [g [_ [<-|[]] ->]]] //= y; apply: excess_ge0.
Qed.
Lemma nonnegative_verify x : nonnegative (verify x).
Proof.
have ok : nonnegative (keep x) /\ forall o, List.In o (keep x) -> forall y, 0 <= o.1.2 y.
  case: x => [|a x] /=.
    by split; [apply: nonnegative_ret|move=> o [<-|[]] y /=; apply: p0].
  have w01 : 0 <= weight_after [::] 1 a <= 1 by apply: weight_after01; rewrite ler01.
  have [later0 later_ok] := longest_ok x [:: a] w01; split.
    by apply: nonnegative_bind later0 _ => -[[kept next]|]; apply: nonnegative_ret.
  move=> o /in_bind[[[[kept next]|] c] [d [/later_ok ok + ->]]] /=; first by move=> [<-|[]].
  by move=> [<-|[]] y; apply: excess_ge0.
apply: nonnegative_bind_in (proj1 ok) _ => a a_in.
apply: nonnegative_bind => [|y]; last exact: nonnegative_ret.
by apply: (nonnegative_draw complete) => y; apply: (proj2 ok) a_in y.
Qed.
(* The outcome of block verification is a law: no weight is negative, and they sum to 1. *)
Theorem block_law n : is_law (block n).
Proof.
split.
  apply: nonnegative_bind (proj1 (law_path complete q_model n _)) _ => x.
  exact: nonnegative_verify.
transitivity (accepts [::] (block n)); last by rewrite block_accepts.
by apply: eq_expected => e; rewrite prefix0s.
Qed.

(* Block verification is lossless: the text begins with t with probability p(t), for every t. *)
Theorem block_lossless n : lossless p (block n).
Proof. by apply/lossless_balanced; [apply: block_law|apply: block_balanced]. Qed.

(* The same after any selection of a path, if q is the law of the path that is selected. *)
Definition selects n (selected : law (seq T)) :=
  forall f : seq T -> R, expected f selected = expected f (path n [::]).
(* A path that was selected by any means, and has the law of q, is verified with the same outcome as
   a path drawn from q. *)
Theorem selected_block n selected f : selects n selected ->
  expected f (x <- selected ;; verify x) = expected f (block n).
Proof. by move=> same; rewrite !expected_bind same. Qed.
(* After any selection of a path that has the law of q, the outcome of block verification is a
   law. *)
Theorem selected_block_law n selected : nonnegative selected -> selects n selected ->
  is_law (x <- selected ;; verify x).
Proof.
move=> selected0 same; split; last by rewrite (selected_block _ same); case: (block_law n).
by apply: nonnegative_bind selected0 _ => x; apply: nonnegative_verify.
Qed.
(* After any selection of a path that has the law of q, block verification is lossless: the text
   begins with t with probability p(t), for every t. *)
Theorem selected_block_lossless n selected : selects n selected ->
  lossless p (x <- selected ;; verify x).
Proof. by move=> same t; rewrite /writes (selected_block _ same); apply: block_lossless. Qed.

Lemma longest_prefix x z w o : List.In o (longest x z w) ->
  if o.1 is Some (kept, _) then prefix kept x else true.
Proof.
elim: x z w o => [|a x IH] z w o /=; first by move=> [<-|[<-|[]]].
move=> /in_bind[[[[kept next]|] c] [d [/IH ok + ->]]] /=.
  by move=> [<-|[]] /=; rewrite eqxx.
by move=> /in_bind[[[] e] [g [_ [<-|[]] ->]]].
Qed.
(* Block verification accepts only what was drafted: what it accepts is a prefix of the path. *)
Theorem verify_prefix x e : List.In e (verify x) -> prefix e.1.1 x.
Proof.
rewrite /verify => /in_bind[a [c [a_in /in_bind[b [d [_ [<-|[]] ->]]] ->]]] /=.
case: x a_in => [|t x] /=; first by move=> [<-|[]].
move=> /in_bind[[[[kept next]|] f] [g [/longest_prefix ok + ->]]] /=; last by move=> [<-|[]].
by move=> [<-|[]] /=; rewrite eqxx.
Qed.

Lemma path_prefix n x z : probability (fun y => prefix x y) (path n z) =
  if (size x <= n)%N then text q z x else 0.
Proof.
elim: n x z => [|n IH] [|a x] z.
- by rewrite /probability expected_ret.
- by rewrite /probability expected_ret.
- rewrite /= -[RHS](proj2 (law_path complete q_model n.+1 z)).
  by apply: eq_expected => y; rewrite prefix0s.
rewrite ltnS /probability [LHS]expected_bind (expected_draw_row complete) //.
transitivity (\sum_b (q z b * if (size x <= n)%N then text q (rcons z b) x else 0) * (b == a)%:R).
  apply: eq_bigr => b _; rewrite -mulrA; congr (_ * _).
  rewrite -IH /probability -expected_mulr expected_bind; apply: eq_expected => y.
  by rewrite expected_ret /= [a == b]eq_sym; case: eqP => _; rewrite ?mulr1 ?mulr0.
by rewrite sum_at; case: ifP => _; rewrite ?mulr0.
Qed.

(* Of a path that can be drafted, the outcome is a law: where an excess is drawn from that sums to
   nothing, all coins have passed before. *)
Lemma possible_path n z x : possible (path n z) x -> size x = n /\ text q z x != 0.
Proof.
elim: n z x => [|n IH] z x /= can; first by rewrite (possible_ret can) oner_neq0.
have [a /possible_draw a_can {}can] := possible_bind can.
have [y /IH[size_y y_can] {}can] := possible_bind can; rewrite (possible_ret can) /= size_y.
split=> //; move: a_can; rewrite /normalised (totalE complete) /= q1 divr1 => a_can.
exact: mulf_neq0.
Qed.
Let all_passed x z : expected missing (kept <- longest x z 1 ;; finished kept) = 0.
Proof.
have some next : expected missing (finished (Some next)) = 0.
  case: next => accepted next; rewrite expected_bind -[RHS](expected_zero (draw next)).
  by apply: eq_expected => y; rewrite expected_ret.
rewrite expected_bind; case: x => [|a x] /=.
  by rewrite expected_bind expected_coin !expected_ret some subrr mul0r mulr0 addr0.
rewrite expected_bind -[RHS](expected_zero (longest x (rcons z a) (weight_after z 1 a))).
apply: eq_expected => -[[accepted next]|]; first by rewrite expected_ret some.
by rewrite expected_bind expected_coin !expected_ret some sure subrr mul0r mulr0 addr0.
Qed.
Let total_finished x z w : 0 <= w <= 1 -> text q z x != 0 ->
  expected (fun=> 1) (kept <- longest x z w ;; finished kept) = 1.
Proof.
have one r : is_row r -> expected (fun=> 1) (finished (Some ([::], r))) = 1.
  move=> r_row; rewrite expected_bind (expected_draw_row complete) // -[RHS](proj2 r_row).
  by apply: eq_bigr => y _; rewrite expected_ret mulr1.
elim: x z w => [|a x IH] z w w01 /=.
  rewrite expected_bind expected_bind expected_coin !expected_ret one ?[finished _]/= //.
  by move=> _; rewrite !mulr1 addrC subrK.
rewrite mulf_eq0 negb_or => /andP[qa rest]; have /andP[w0 _] := w01.
have later01 := weight_after01 z a w0; have [pass01 passed] := pass_probabilityE z w01.
have later := IH _ _ later01 rest.
set short := 1 - expected (fun=> 1) (finished (Some ([::], excess (p z) (q z) w))).
transitivity (expected (fun=> 1) (kept <- longest x (rcons z a) (weight_after z w a) ;;
    finished kept) - expected missing (kept <- longest x (rcons z a) (weight_after z w a) ;;
    finished kept) * (pass_probability z w * short)).
  rewrite !expected_bind -expected_mulr -expected_sub; apply: eq_expected => -[[u next]|].
    rewrite expected_ret /= !expected_bind -expected_mulr -expected_sub.
    by apply: eq_expected => y; rewrite !expected_ret mul0r subr0.
  have none f : expected f (finished None) = f None by exact: expected_ret.
  rewrite [RHS](_ : _ = 1 - pass_probability z w * short) ?none ?mul1r //.
  rewrite expected_bind expected_coin !expected_ret.
  by rewrite /short mulrBr !mulr1 opprB addrCA.
rewrite later; suff -> : expected missing (kept <- longest x (rcons z a) (weight_after z w a) ;;
    finished kept) * (pass_probability z w * short) = 0 by rewrite subr0.
have [owed0|owed_some] := eqVneq (owed z w) 0; last first.
  suff -> : short = 0 by rewrite !mulr0.
  apply/eqP; rewrite subr_eq0 eq_sym -(inj_eq (mulfI owed_some)) corrected mulr1.
  by under eq_bigr => y _ do rewrite mulr1.
move: passed; rewrite owed0 add0r => /eqP; rewrite mulf_eq0 => /orP[/eqP ->|].
  by rewrite mul0r mulr0.
rewrite subr_eq0 => /eqP w1; rewrite -w1 in owed0 *.
have pq : p z a = q z a.
  have none b : Num.max (1 * p z b - q z b) 0 = 0 by apply: owed_all owed0 b.
  have le b : 0 <= q z b - p z b.
    by have /max_idPr := none b; rewrite mul1r subr_le0 subr_ge0.
  have /eqP : \sum_b (q z b - p z b) = 0 by rewrite sumrB q1 p1 subrr.
  rewrite psumr_eq0 => [/allP/(_ a)|b _]; last exact: le.
  by rewrite mem_index_enum => /(_ isT)/eqP/subr0_eq ->.
rewrite weight_afterE mul1r pq divff // minxx.
by rewrite all_passed mul0r.
Qed.
(* The verification of any path that the draft can write is a law: its weights sum to 1. *)
Theorem verify_law n x : possible (path n [::]) x -> is_law (verify x).
Proof.
case/possible_path=> _ x_can; split; first exact: nonnegative_verify.
have one01 : 0 <= (1 : R) <= 1 by rewrite ler01 lexx.
rewrite verify_longest -[RHS](total_finished one01 x_can) -[RHS]subr0.
rewrite -[X in _ = _ - X](all_passed x [::]) -expected_sub.
by apply: eq_expected => -[e|]; rewrite /= ?subr0 ?subrr.
Qed.

(* A verifier of one path, as the law of the path with what is emitted: it may know what it likes
   besides, so long as what it accepts was drafted and the text has the target's law, with the
   target left as it is. *)
Definition lossless_verifier n (m : law (seq T * emission T)) :=
  [/\ is_law m, selects n (o <- m ;; ret _ o.1), forall o, possible m o -> prefix o.2.1 o.1
    & lossless p (o <- m ;; ret _ o.2)].

(* Whatever verifies each path that can be drafted, accepts only what was drafted, and is lossless,
   is one. *)
Lemma each_path_verifier n (v : seq T -> law (emission T)) :
  (forall x, possible (path n [::]) x -> is_law (v x)) ->
  (forall x e, possible (path n [::]) x -> possible (v x) e -> prefix e.1 x) ->
  lossless p (x <- path n [::] ;; v x) ->
  lossless_verifier n (x <- path n [::] ;; e <- v x ;; ret _ (x, e)).
Proof.
move=> v_law v_drafted ok; split=> [|f|o can|t].
- apply: law_bind_possible => [|x x_can]; first exact: law_path.
  by apply: law_bind => [|e]; [exact: v_law|exact: law_ret].
- rewrite !expected_bind; apply: eq_expected_possible => x /v_law[_ total1].
  rewrite expected_bind -[RHS]mul1r -total1 -expected_mulr.
  by apply: eq_expected => e; rewrite !expected_ret mul1r.
- have [x x_can {}can] := possible_bind can; have [e e_can {}can] := possible_bind can.
  by rewrite (possible_ret can); exact: v_drafted e_can.
rewrite -ok /writes !expected_bind; apply: eq_expected => x; rewrite expected_bind.
by apply: eq_expected => e; rewrite !expected_ret.
Qed.

(* The expected accepted length is what is accepted of all prefixes. *)
Lemma size_prefixes k (u : seq T) : (size u <= k)%N ->
  (size u)%:R = \sum_(i < k) \sum_(t : i.+1.-tuple T) (prefix t u)%:R :> R.
Proof.
move=> len; transitivity (\sum_(i < k) (i < size u)%:R : R).
  suff -> : \sum_(i < k) (i < size u)%:R = (minn k (size u))%:R :> R by rewrite (minn_idPr len).
  elim: k {len} => [|k IH]; first by rewrite big_ord0 min0n.
  rewrite big_ord_recr /= IH; case: ltnP => h; rewrite -natrD; congr _%:R.
    by rewrite (minn_idPl h) addn1.
  by rewrite (minn_idPr (leqW h)) addn0.
apply: eq_bigr => i _; case: ltnP => h; last first.
  rewrite big1 // => t _; apply/eqP; rewrite pnatr_eq0 eqb0; apply/negP => /prefixP[v uv].
  by move: h; rewrite uv size_cat size_tuple leqNgt ltnS leq_addr.
have sized : size (take i.+1 u) == i.+1 by rewrite size_takel.
rewrite (bigD1 (Tuple sized)) //= big1 ?addr0 => [|t ne].
  by rewrite prefixE size_takel // eqxx.
apply/eqP; rewrite pnatr_eq0 eqb0; apply: contra ne; rewrite prefixE size_tuple => /eqP e.
by apply/eqP/val_inj.
Qed.
Lemma accepted_length k (m : law (emission T)) : (forall e, List.In e m -> (size e.1.1 <= k)%N) ->
  expected (fun e => (size e.1)%:R) m = \sum_(i < k) \sum_(t : i.+1.-tuple T) accepts t m.
Proof.
move=> len; rewrite (eq_expected_in (g := fun e => \sum_(i < k) \sum_(t : i.+1.-tuple T)
  (prefix t e.1)%:R)) => [|e /len]; last exact: size_prefixes.
by rewrite expected_sum; apply: eq_bigr => i _; rewrite expected_sum.
Qed.

(* The expected number of tokens that block verification accepts is the sum of b(x) over all texts x
   of 1 to n tokens, with b() = 1 and b(xa) = min(b(x) p(a|x), q(xa)). *)
Theorem block_length n : expected (fun e => (size e.1)%:R) (block n) =
  \sum_(i < n) \sum_(t : i.+1.-tuple T) kept_mass t [::] 1.
Proof.
rewrite (@accepted_length n) => [|e]; last first.
  move=> /in_bind[a [c [/size_path <- /verify_prefix/prefixP[t ->] ->]]] /=.
  by rewrite size_cat leq_addr.
by apply: eq_bigr => i _; apply: eq_bigr => t _; rewrite block_accepts size_tuple ltn_ord.
Qed.

Lemma kept_rcons x a z w : 0 <= w -> kept_mass (rcons x a) z w =
  Num.min (kept_mass x z w * p (z ++ x) a) (text q z (rcons x a)).
Proof.
elim: x z w => [|b x IH] z w w0 /=.
  by rewrite cats0 weight_afterE kept_share ?mulr_ge0 // mulr1 minC.
have /andP[w'0 _] := weight_after01 z b w0.
by rewrite IH // minr_pmulr // cat_rcons mulrA.
Qed.

Section Optimality.
Variables (n : nat) (m : law (seq T * emission T)).
Hypothesis verifier : lossless_verifier n m.
Let emitted := o <- m ;; ret (field_numbers R) o.2.

Let law_emitted : is_law emitted.
Proof. by have [m_law _ _ _] := verifier; apply: law_bind => // o; apply: law_ret. Qed.

Lemma accepts_at_most x : accepts x emitted <= if (size x <= n)%N then text q [::] x else 0.
Proof.
have [[m0 _] path_m drafted _] := verifier.
rewrite -path_prefix /probability -path_m /accepts /probability !expected_bind.
apply: expected_mono_possible => // o /drafted ox; rewrite !expected_ret ler_nat.
by case: (boolP (prefix x o.2.1)) => // xo; rewrite (prefix_trans xo ox).
Qed.

(* No lossless verifier of one path that leaves the target as it is, whatever it knows, accepts a
   text more often than block verification. *)
Theorem block_optimal x : accepts x emitted <= accepts x (block n).
Proof.
have [_ _ _ ok] := verifier.
have balanced_emitted := proj1 (lossless_balanced p law_emitted) ok.
have emitted0 := proj1 law_emitted.
elim/last_ind: x => [|x a IH].
  rewrite block_accepts /= -[X in _ <= X](proj2 law_emitted).
  by apply: expected_mono => // e; rewrite lern1 leq_b1.
have drafted := accepts_at_most (rcons x a).
rewrite block_accepts size_rcons in drafted *; case: ifP drafted => // len drafted.
rewrite kept_rcons ?ler01 // le_minr drafted andbT.
have len' : (size x <= n)%N by apply: ltnW.
move: IH; rewrite block_accepts len' => IH.
apply: le_trans (_ : accepts x emitted * p x a <= _); last exact: ler_wpmul2r.
rewrite -balanced_emitted ler_addl; apply: expected_ge0 => // e; exact: ler0n.
Qed.

(* No lossless verifier of one path that leaves the target as it is, whatever it knows, accepts more
   tokens on average than block verification. *)
Theorem block_longest :
  expected (fun e => (size e.1)%:R) emitted <= expected (fun e => (size e.1)%:R) (block n).
Proof.
have [[m0 _] path_m drafted _] := verifier.
pose off (u : seq T) : R := if size u == n then 0 else (size u)%:R.
have expected_off : expected (fun o => off o.1) m = 0.
  transitivity (expected off (o <- m ;; ret (field_numbers R) o.1)).
    by rewrite expected_bind; apply: eq_expected => o; rewrite expected_ret.
  rewrite path_m -[RHS](expected_zero (path n [::])); apply: eq_expected_possible => u.
  by case/possible_path=> size_u _; rewrite /off size_u eqxx.
apply: (@le_trans _ _ (\sum_(i < n) \sum_(t : i.+1.-tuple T) accepts t emitted)); last first.
  rewrite block_length; apply: ler_sum => i _; apply: ler_sum => t _.
  by have := block_optimal t; rewrite block_accepts size_tuple ltn_ord.
rewrite -[X in _ <= X]addr0 -[X in _ <= _ + X]expected_off expected_bind.
apply: (@le_trans _ _ (expected (fun o => (\sum_(i < n) \sum_(t : i.+1.-tuple T)
    (prefix t o.2.1)%:R) + off o.1) m)).
  apply: expected_mono_possible => // o /drafted/size_prefix short; rewrite expected_ret /off.
  case: eqP => [path_size|_]; first by rewrite addr0 -size_prefixes // -path_size.
  apply: ler_paddl; last by rewrite ler_nat.
  by apply: sumr_ge0 => i _; apply: sumr_ge0 => t _; rewrite ler0n.
rewrite expected_add expected_sum ler_add2r; apply: ler_sum => i _.
rewrite expected_sum; apply: ler_sum => t _; rewrite /accepts /probability expected_bind.
by apply: expected_mono => // o; rewrite expected_ret.
Qed.
End Optimality.

(* Block verification with the path that it verifies. *)
Definition block_outcome n : law (seq T * emission T) :=
  x <- path n [::] ;; e <- verify x ;; ret _ (x, e).
(* Block verification is itself a lossless verifier of one path that leaves the target as it is, so
   it reaches what no such verifier exceeds. *)
Theorem block_is_one n : lossless_verifier n (block_outcome n) /\
  forall f : emission T -> R, expected f (o <- block_outcome n ;; ret _ o.2) = expected f (block n).
Proof.
split; last first.
  move=> f; rewrite !expected_bind; apply: eq_expected => x; rewrite expected_bind.
  by apply: eq_expected => e; rewrite !expected_ret.
apply: each_path_verifier => [x|x e _ [w e_in _]|]; first exact: verify_law.
  exact: verify_prefix e_in.
exact: block_lossless.
Qed.
End Theorems.
