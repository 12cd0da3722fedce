(* Descent: verification of a tree of drafts from the root down, with one rule for one position.

   At every node siblings are drawn, by a law that may depend on all that was drawn on the way down,
   and a rule chooses a token and whether to go on at its node. Proved for every depth, vocabulary
   and target: if at every node that can be reached the token chosen has the target's law (the
   siblings drawn and the rule together), then what is accepted and the next token are balanced, and
   so the text has the target's law at every horizon. And: no rule that goes on at drafted tokens
   only accepts a token more often than the target writes it, or than it is drafted; and what such a
   rule accepts on the way down was drafted, each token at its node. arXiv 2305.09781. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T).
Local Open Scope number_scope.

(* A rule for one position gets the siblings, the target's row and the draft's row. It gives a
   token, and whether to go on at its node. *)
Definition rule := seq T -> row N T -> row N T -> law N (T * bool).

(* The siblings drawn at every node on the way down, with the token that was chosen there. *)
Definition history := seq (seq T * T).
Definition node (h : history) : seq T := [seq step.2 | step <- h].

(* The number of copies of the node: i.i.d. siblings repeat tokens. *)
Definition copies (h : history) : nat :=
  if rev h is (siblings, a) :: _ then count_mem a siblings else 1%N.

(* A tree that draws siblings on demand, widths(depth) after every copy of a node. *)
Definition growing (scheme : row N T -> nat -> law N (seq T)) (widths : nat -> nat)
    (q : model N T) (h : history) : law N (seq T) :=
  scheme (q (node h)) (copies h * widths (size h))%N.

(* What happens at one position: the siblings, and the rule's choice. *)
Definition position (siblings : law N (seq T)) (choose : seq T -> law N (T * bool)) :
    law N (seq T * (T * bool)) :=
  drafted <- siblings ;; chosen <- choose drafted ;; ret _ (drafted, chosen).

Variables (p q : model N T) (siblings : history -> law N (seq T)) (choose : rule).

Definition decide (h : history) : law N (seq T * (T * bool)) :=
  position (siblings h) (fun drafted => choose drafted (p (node h)) (q (node h))).

(* n: the number of tokens still to be drafted. *)
Fixpoint descend (n : nat) (h : history) : law N (emission T) :=
  if n is n'.+1 then
    '(drafted, (a, goes_on)) <- decide h ;;
    if goes_on then
      below <- descend n' (rcons h (drafted, a)) ;; ret _ (a :: below.1, below.2)
    else ret _ ([::], a)
  else bonus <- draw vocabulary (p (node h)) ;; ret _ ([::], bonus).
End Programs.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments coin : simpl never.
Local Arguments expected : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* -------------------------------------------------------------------------------- one position *)
Section OnePosition.
Variables (R : realFieldType) (T : finType).
Local Notation law := (law (field_numbers R)).
Local Notation decision := (law (seq T * (T * bool))).
Implicit Types (r : T -> R) (m : decision) (a : T).

(* The token chosen has the law r. *)
Definition follows r m := is_law m /\ forall a, probability (fun d => d.2.1 == a) m = r a.
(* The probabilities that a is accepted, and that it is drafted. *)
Definition accepted a m : R := probability (fun d => d.2 == (a, true)) m.
Definition drafted a (siblings : law (seq T)) : R := probability (fun s => a \in s) siblings.

(* A rule goes on at drafted tokens only. *)
Definition goes_on_drafted (choose : seq T -> law (T * bool)) :=
  forall siblings chosen, possible (choose siblings) chosen -> chosen.2 -> chosen.1 \in siblings.

Lemma expected_position (f : seq T * (T * bool) -> R) (siblings : law (seq T)) choose :
  expected f (position siblings choose) =
  expected (fun s => expected (fun chosen => f (s, chosen)) (choose s)) siblings.
Proof.
rewrite expected_bind; apply: eq_expected => s; rewrite expected_bind.
by apply: eq_expected => chosen; rewrite expected_ret.
Qed.
Lemma law_position (siblings : law (seq T)) choose : is_law siblings ->
  (forall s, possible siblings s -> is_law (choose s)) -> is_law (position siblings choose).
Proof.
move=> ok choose_ok; apply: law_bind_possible => // s /choose_ok choose_law.
by apply: law_bind => // chosen; apply: law_ret.
Qed.
Lemma follows_each r (siblings : law (seq T)) choose : is_law siblings ->
  (forall s, possible siblings s -> is_law (choose s)) ->
  (forall a, expected (fun s => probability (fun chosen => chosen.1 == a) (choose s)) siblings
    = r a) -> follows r (position siblings choose).
Proof.
move=> ok choose_ok token; split; first exact: law_position.
by move=> a; rewrite -token /probability expected_position.
Qed.

(* A rule whose token has the law r, and that goes on at drafted tokens only, accepts a token a with
   at most min(r(a), P(a is drafted)). *)
Theorem accepted_at_most r a (siblings : law (seq T)) choose : is_law siblings ->
  (forall s, possible siblings s -> is_law (choose s)) ->
  follows r (position siblings choose) -> goes_on_drafted choose ->
  accepted a (position siblings choose) <= Num.min (r a) (drafted a siblings).
Proof.
move=> [s0 _] choose_ok [[d0 _] token] on_drafted; rewrite le_minr; apply/andP; split.
  rewrite -token; apply: expected_mono => // -[s [b goes_on]]; rewrite xpair_eqE /=.
  by case: (b == a); case: goes_on; rewrite /= ?lexx ?ler01.
rewrite /accepted /probability expected_position.
have -> : drafted a siblings =
    expected (fun s => probability (fun=> a \in s) (choose s)) siblings.
  apply: eq_expected_possible => s /choose_ok[_ total1].
  by rewrite /probability expected_const total1 mul1r.
rewrite -subr_ge0 -expected_sub.
rewrite (@eq_expected_possible _ _ _ (fun s => Num.max 0 (probability (fun=> a \in s) (choose s)
  - expected (fun chosen => (chosen == (a, true))%:R) (choose s)))).
  by apply: expected_ge0 => // s; rewrite le_maxr lexx.
move=> s /choose_ok[c0 _]; symmetry; apply/max_idPr.
rewrite /probability -expected_sub (@eq_expected_possible _ _ _
  (fun chosen => Num.max 0 ((a \in s)%:R - (chosen == (a, true))%:R))).
  by apply: expected_ge0 => // chosen; rewrite le_maxr lexx.
move=> -[b goes_on] /on_drafted /= there; rewrite xpair_eqE; symmetry; apply/max_idPr.
case: eqP => [<-|_] /=; last by rewrite subr0; case: (_ \in _); rewrite ?ler01.
case: goes_on there => /= [->|_] //; first by rewrite subrr.
by rewrite subr0; case: (_ \in _); rewrite ?ler01.
Qed.
End OnePosition.
Arguments goes_on_drafted {R T}.

(* -------------------------------------------------------------------------------------- descent *)
Section Descent.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypothesis p_model : is_model p.
Local Notation law := (law (field_numbers R)).
Variables (siblings : history T -> law (seq T)) (choose : rule (field_numbers R) T).
Local Notation decide := (@decide (field_numbers R) T p q siblings choose).
Local Notation descend := (@descend (field_numbers R) T vocabulary p q siblings choose).
Implicit Types (h : history T) (x z : seq T) (n : nat).

(* A history that can come about. *)
Inductive reachable : history T -> Prop :=
| reachable_root : reachable [::]
| reachable_after h s a :
    reachable h -> possible (decide h) (s, (a, true)) -> reachable (rcons h (s, a)).

Lemma possible_descend n h e : reachable h -> possible (descend n h) e ->
  exists2 h', reachable (h ++ h') & node h' = e.1.
Proof.
elim: n h e => [|n IH] h e reached /= can.
  have [a _ {}can] := possible_bind can; rewrite (possible_ret can).
  by exists [::]; rewrite ?cats0.
have [[s [a goes_on]] decided {}can] := possible_bind can.
case: goes_on decided can => decided can; last first.
  by rewrite (possible_ret can); exists [::]; rewrite ?cats0.
have [e' below {}can] := possible_bind can; rewrite (possible_ret can).
have [h' reached' nodeE] := IH _ _ (reachable_after reached decided) below.
by exists ((s, a) :: h'); [rewrite -cat_rcons|rewrite /= nodeE].
Qed.
(* Where the rule goes on at drafted tokens only, every accepted token was drafted at its node: the
   accepted tokens are the choices of a history that can come about, in which each choice is among
   the siblings drawn there. *)
Theorem accepted_were_drafted n e :
  (forall h s chosen, reachable h -> possible (siblings h) s ->
    possible (choose s (p (node h)) (q (node h))) chosen -> chosen.2 -> chosen.1 \in s) ->
  possible (descend n [::]) e ->
  exists h, [/\ reachable h, node h = e.1 & all (fun step : seq T * T => step.2 \in step.1) h].
Proof.
move=> on_drafted /(possible_descend reachable_root)[h reached nodeE]; exists h; split=> //.
have {e nodeE} : reachable h by [].
elim=> // {n reached} h' s a reached there decided; rewrite all_rcons there andbT /=.
move: decided; rewrite /descent.decide /position => decided.
have [s' s_drawn can'] := possible_bind decided; have [chosen chose can] := possible_bind can'.
have [sE chosenE] := possible_ret can; rewrite -sE in s_drawn chose.
by have := on_drafted h' s chosen reached s_drawn chose; rewrite -chosenE; apply.
Qed.

Variable depth : nat.
Hypothesis sound : forall h, reachable h -> (size h < depth)%N -> follows (p (node h)) (decide h).

Let step n h (d : seq T * (T * bool)) : law (emission T) :=
  if d.2.2 then
    below <- descend n (rcons h (d.1, d.2.1)) ;; ret _ (d.2.1 :: below.1, below.2)
  else ret _ ([::], d.2.1).

Lemma expected_descend f n h : expected f (descend n.+1 h) =
  expected (fun d => expected f (step n h d)) (decide h).
Proof. by rewrite [descend _ _]/= expected_bind; apply: eq_expected => -[s [a goes_on]]. Qed.

Lemma law_descend_from n h : reachable h -> (size h + n = depth)%N -> is_law (descend n h).
Proof.
elim: n h => [|n IH] h reached size_h /=.
  by apply: law_bind => [|a]; [apply: (law_draw_row complete)|apply: law_ret].
have [] := sound reached; first by rewrite -size_h -addSnnS leq_addr.
move=> ok _; apply: law_bind_possible => // -[s [a []]] can; last exact: law_ret.
apply: law_bind => [|e]; last exact: law_ret.
by apply: IH; [apply: reachable_after|rewrite size_rcons addSnnS].
Qed.
(* Where the token chosen has the target's law at every node that can be reached above the last
   depth, the outcome of the descent is a law. *)
Theorem law_descend : is_law (descend depth [::]).
Proof. exact: law_descend_from reachable_root _. Qed.

Lemma accepts_step b x n h d : accepts (b :: x) (step n h d) =
  if d.2 == (b, true) then accepts x (descend n (rcons h (d.1, b))) else 0.
Proof.
case: d => s [a []]; rewrite /step /accepts /probability xpair_eqE /= ?andbF ?expected_ret //.
rewrite expected_bind andbT; case: eqP => [->|ne].
  by apply: eq_expected => e; rewrite expected_ret /= eqxx.
rewrite -[RHS](expected_zero (descend n (rcons h (s, a)))).
by apply: eq_expected => e; rewrite expected_ret /= eq_sym; case: eqP.
Qed.
Lemma ends_step b x y n h d : ends (b :: x) y (step n h d) =
  if d.2 == (b, true) then ends x y (descend n (rcons h (d.1, b))) else 0.
Proof.
case: d => s [a []]; rewrite /step /ends /probability xpair_eqE /= ?andbF ?expected_ret //.
rewrite expected_bind andbT; case: eqP => [->|ne].
  by apply: eq_expected => e; rewrite expected_ret !xpair_eqE eqseq_cons eqxx.
rewrite -[RHS](expected_zero (descend n (rcons h (s, a)))).
apply: eq_expected => e; rewrite expected_ret xpair_eqE eqseq_cons /=.
by case: eqP.
Qed.
Lemma accepts_nil (m : law (emission T)) : is_law m -> accepts [::] m = 1.
Proof. by case=> _ m1; rewrite -[RHS]m1; apply: eq_expected => e; rewrite prefix0s. Qed.

Lemma balanced_from n h x a : reachable h -> (size h + n = depth)%N ->
  accepts (rcons x a) (descend n h) + ends x a (descend n h)
  = accepts x (descend n h) * p (node h ++ x) a.
Proof.
elim: n h x => [|n IH] h x reached size_h.
  rewrite /accepts /ends /probability [descend _ _]/= !expected_bind.
  rewrite !(expected_draw_row complete) //; case: x => [|b x].
    rewrite big1 => [|y _]; last by rewrite expected_ret mulr0.
    under [X in _ + X = _]eq_bigr => y _ do rewrite expected_ret xpair_eqE eqxx /=.
    under [X in _ = X * _]eq_bigr => y _ do rewrite expected_ret mulr1.
    by case: (p_model (node h)) => _ ->; rewrite add0r mul1r cats0 sum_at.
  rewrite !big1 ?addr0 ?mul0r // => y _; rewrite expected_ret ?mulr0 //.
have below s b : possible (decide h) (s, (b, true)) -> reachable (rcons h (s, b)) /\
    (size (rcons h (s, b)) + n = depth)%N.
  by move=> can; split; [apply: reachable_after|rewrite size_rcons addSnnS].
case: x => [|b x]; last first.
  rewrite [rcons _ _]/= /accepts /ends /probability !expected_descend -expected_mulr.
  rewrite -expected_add; apply: eq_expected_possible => -[s [c goes_on]] can.
  have := accepts_step b (rcons x a) n h (s, (c, goes_on)); rewrite /accepts /probability => ->.
  have := accepts_step b x n h (s, (c, goes_on)); rewrite /accepts /probability => ->.
  have := ends_step b x a n h (s, (c, goes_on)); rewrite /ends /probability => ->.
  rewrite xpair_eqE /=; case: eqP can => [->|_ _]; last by rewrite mul0r addr0.
  case: goes_on => [can|_] /=; last by rewrite mul0r addr0.
  have [reached' size_h'] := below _ _ can.
  by have := IH _ x reached' size_h'; rewrite /node map_rcons cat_rcons.
have inside : (size h < depth)%N by rewrite -size_h -addSnnS leq_addr.
have [_ token] := sound reached inside.
rewrite (accepts_nil (law_descend_from reached size_h)) mul1r cats0 -token.
rewrite /accepts /ends /probability !expected_descend -expected_add.
apply: eq_expected_possible => -[s [c goes_on]] can.
have := accepts_step a [::] n h (s, (c, goes_on)); rewrite /accepts /probability => ->.
rewrite xpair_eqE /=; case: goes_on can => can; last first.
  by rewrite andbF add0r expected_ret xpair_eqE eqxx.
have [reached' size_h'] := below _ _ can.
rewrite andbT expected_bind [X in _ + X](_ : _ = 0); last first.
  rewrite -[RHS](expected_zero (descend n (rcons h (s, c)))).
  by apply: eq_expected => e; rewrite expected_ret.
case: eqP => [<-|_]; rewrite addr0 //.
exact: (accepts_nil (law_descend_from reached' size_h')).
Qed.

(* Where the token chosen has the target's law at every node that can be reached, the descent is
   balanced: P(at least xa is accepted) + P(x alone is accepted, and a is next) is P(at least x is
   accepted) p(a|x). *)
Theorem descend_balanced : balanced p (descend depth [::]).
Proof. by move=> x a; rewrite (balanced_from _ _ reachable_root). Qed.
(* Where the token chosen has the target's law at every node that can be reached, the text after the
   descent has the target's law, at every horizon. *)
Theorem descend_lossless : lossless p (descend depth [::]).
Proof. by apply/lossless_balanced; [apply: law_descend|apply: descend_balanced]. Qed.
Lemma descend_sound : let m := descend depth [::] in [/\ is_law m, balanced p m & lossless p m].
Proof. by split; [apply: law_descend|apply: descend_balanced|apply: descend_lossless]. Qed.

(* Where acceptance at a node does not depend on what was drafted above it, the law of what is
   accepted is the product; that of the next token follows, by the balance. *)
Section Product.
Variable keeps : seq T -> T -> R.
Hypothesis kept : forall h a, reachable h -> (size h < depth)%N ->
  accepted a (decide h) = keeps (node h) a.
Let product := text (N := field_numbers R) keeps.

Lemma accepts_from n h x : reachable h -> (size h + n = depth)%N ->
  accepts x (descend n h) = if (size x <= n)%N then product (node h) x else 0.
Proof.
elim: n h x => [|n IH] h [|b x] reached size_h //=;
  try by rewrite (accepts_nil (law_descend_from reached size_h)).
  rewrite /accepts /probability expected_bind (expected_draw_row complete) // big1 // => y _.
  by rewrite expected_ret mulr0.
rewrite /accepts /probability expected_descend.
transitivity (expected (fun d => if d.2 == (b, true)
    then accepts x (descend n (rcons h (d.1, b))) else 0) (decide h)).
  by apply: eq_expected => d; apply: accepts_step.
rewrite (expected_if (c := if (size x <= n)%N then product (rcons (node h) b) x else 0)).
  rewrite -/(accepted b (decide h)) kept //; first by rewrite ltnS; case: ifP; rewrite ?mulr0.
  by rewrite -size_h -addSnnS leq_addr.
move=> -[s d2] can /eqP /= d2E; rewrite d2E in can.
rewrite IH; first by rewrite /node map_rcons.
  exact: reachable_after.
by rewrite size_rcons addSnnS.
Qed.
(* Where the rule accepts a token at a node with a probability that depends on the node alone, at
   least x is accepted with the product of these over the tokens of x, and with 0 if |x| > depth. *)
Theorem accepts_descend x :
  accepts x (descend depth [::]) = if (size x <= depth)%N then product [::] x else 0.
Proof. exact: accepts_from reachable_root _. Qed.
(* The probability that x alone is accepted and a is next is P(at least x is accepted) p(a|x) -
   P(at least xa is accepted). *)
Theorem ends_descend x a : ends x a (descend depth [::]) =
  accepts x (descend depth [::]) * p x a - accepts (rcons x a) (descend depth [::]).
Proof. by rewrite -descend_balanced addrC addKr. Qed.
End Product.
End Descent.

(* A rule that is right at one position, for all rows and widths, is lossless in every tree. *)
Section Growing.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Variables (scheme : (T -> R) -> nat -> law (seq T)) (choose : rule (field_numbers R) T).
Implicit Types (p q : seq T -> T -> R) (depth : nat).

(* A tree that draws siblings on demand, as many after every copy of a node as its history says. *)
Definition on_demand (widths : history T -> nat) q (h : history T) : law (seq T) :=
  scheme (q (node h)) (copies h * widths h)%N.
(* The tree `growing`, which the programs are run on, is the one that draws on demand, after every
   copy of a node, as many siblings as its depth says. *)
Theorem growing_on_demand (widths : nat -> nat) q :
  growing scheme widths q = on_demand (fun h => widths (size h)) q.
Proof. by []. Qed.

Definition sound_rule := forall width (r d : T -> R), is_row r -> is_row d ->
  follows r (position (scheme d width) (fun siblings => choose siblings r d)).

(* In a tree that draws its siblings on demand, as many after each copy of a node as its history
   says, a rule whose token has the target's law at one position, for all rows and numbers of
   siblings, gives a law, which is balanced and lossless. *)
Theorem growing_lossless widths depth p q : sound_rule -> is_model p -> is_model q ->
  let m := descend (N := field_numbers R) vocabulary p q (on_demand widths q) choose depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> sound p_model q_model; apply: (descend_sound complete) => // h _ _.
exact: sound.
Qed.
End Growing.
