(* Trees that are drawn as a whole before they are verified, as engines draw them.

   The siblings of the root are drawn first, then a tree below each distinct one, and so on down to
   a depth. The trees below different siblings are independent, given all that was drawn above
   them. Then a rule goes down the tree and reads the siblings off it. In `descent` siblings are
   drawn on demand, only at the nodes that the rule visits. Proved for every depth, vocabulary,
   target, draft and law of siblings: if the siblings have a law at every node that a tree may have,
   and the rule goes on only at tokens that are drafted where it stands, then the outcome has the
   same law as with siblings drawn on demand. So a rule whose token has the target's law at every
   node that can be reached is balanced and lossless on a whole tree; so is recursive rejection,
   with and without replacement, in a tree of any depth and widths. Trees are drawn as a whole in
   arXiv 2305.09781, 2402.12374 and 2402.14160. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent rejection.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(* The siblings that were drawn after a node, and the tree below each distinct one. *)
Inductive tree (T : Type) := Leaf | Node (drafted : seq T) (below : seq (T * tree T)).
Arguments Leaf {T}.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T).

Definition siblings_in (t : tree T) : seq T := if t is Node drafted _ then drafted else [::].

(* The tree below a token; a leaf, if the token was not drafted. *)
Fixpoint find_tree (trees : seq (T * tree T)) (a : T) : tree T :=
  if trees is (b, t) :: others then if b == a then t else find_tree others a else Leaf.
Definition tree_below (t : tree T) (a : T) : tree T :=
  if t is Node _ trees then find_tree trees a else Leaf.

(* A tree for each token, drawn one after another, independently. *)
Fixpoint draw_each (draw_one : T -> law N (tree T)) (tokens : seq T) :
    law N (seq (T * tree T)) :=
  if tokens is a :: tokens' then
    t <- draw_one a ;; others <- draw_each draw_one tokens' ;; ret _ ((a, t) :: others)
  else ret _ [::].

Variables (p q : model N T) (siblings : history T -> law N (seq T)) (choose : rule N T).

(* The tree of n more tokens below a node. *)
Fixpoint draw_tree (n : nat) (h : history T) : law N (tree T) :=
  if n is n'.+1 then
    drafted <- siblings h ;;
    trees <- draw_each (fun a => draw_tree n' (rcons h (drafted, a))) (undup drafted) ;;
    ret _ (Node drafted trees)
  else ret _ Leaf.

(* The descent in a tree that is drawn already; n: the number of tokens still to be read. *)
Fixpoint descend_in (t : tree T) (n : nat) (h : history T) {struct n} : law N (emission T) :=
  if n is n'.+1 then
    '(a, goes_on) <- choose (siblings_in t) (p (node h)) (q (node h)) ;;
    if goes_on then
      below <- descend_in (tree_below t a) n' (rcons h (siblings_in t, a)) ;;
      ret _ (a :: below.1, below.2)
    else ret _ ([::], a)
  else bonus <- draw vocabulary (p (node h)) ;; ret _ ([::], bonus).

Definition verify_whole (n : nat) : law N (emission T) :=
  t <- draw_tree n [::] ;; descend_in t n [::].
End Programs.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments coin : simpl never.
Local Arguments expected : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Whole.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Local Notation law := (law (field_numbers R)).
Variables (p q : seq T -> T -> R) (siblings : history T -> law (seq T)).
Variables (choose : rule (field_numbers R) T).
Local Notation decide := (@decide (field_numbers R) T p q siblings choose).
Local Notation descend := (@descend (field_numbers R) T vocabulary p q siblings choose).
Local Notation draw_tree := (@draw_tree (field_numbers R) T siblings).
Local Notation draw_each := (@draw_each (field_numbers R) T).
Local Notation descend_in := (@descend_in (field_numbers R) T vocabulary p q choose).
Local Notation verify_whole :=
  (@verify_whole (field_numbers R) T vocabulary p q siblings choose).
Local Notation reachable := (@reachable R T p q siblings choose).
Implicit Types (h : history T) (s : seq T) (t : tree T) (n : nat).

(* A history that a whole tree may have: every token is among siblings that can be drawn there. *)
Inductive in_tree : history T -> Prop :=
| in_tree_root : in_tree [::]
| in_tree_after h s a :
    in_tree h -> possible (siblings h) s -> a \in s -> in_tree (rcons h (s, a)).

Variable depth : nat.
Hypothesis siblings_law : forall h, in_tree h -> (size h < depth)%N -> is_law (siblings h).
Hypothesis on_drafted : forall h s chosen, reachable h -> (size h < depth)%N ->
  possible (siblings h) s -> possible (choose s (p (node h)) (q (node h))) chosen ->
  chosen.2 -> chosen.1 \in s.

(* ----------------------------------------------------------------------- the tree that is drawn *)
Lemma law_draw_each (draw_one : T -> law (tree T)) s :
  (forall a, a \in s -> is_law (draw_one a)) -> is_law (draw_each draw_one s).
Proof.
elim: s => [|a s IH] ok /=; first exact: law_ret.
apply: law_bind => [|t]; first by apply: ok; rewrite mem_head.
apply: law_bind => [|others]; last exact: law_ret.
by apply: IH => b b_in; apply: ok; rewrite inE b_in orbT.
Qed.
(* Of the trees below all siblings, the one below a sibling has the law that it was drawn from. *)
Lemma expected_find (draw_one : T -> law (tree T)) s a (g : tree T -> R) :
  (forall b, b \in s -> is_law (draw_one b)) -> a \in s ->
  expected (fun trees => g (find_tree trees a)) (draw_each draw_one s) = expected g (draw_one a).
Proof.
elim: s => [|b s IH] //= ok a_in.
have ok_s c : c \in s -> is_law (draw_one c) by move=> c_in; apply: ok; rewrite inE c_in orbT.
have [_ others1] := law_draw_each ok_s; have [_ first1] := ok b (mem_head b s).
rewrite expected_bind; have [ab|ne] := eqVneq b a.
  rewrite -ab; apply: eq_expected => t; rewrite expected_bind -[RHS]mul1r -others1 -expected_const.
  by apply: eq_expected => others; rewrite expected_ret /= eqxx.
transitivity (expected (fun=> expected g (draw_one a)) (draw_one b)); last first.
  by rewrite expected_const first1 mul1r.
apply: eq_expected => t; rewrite expected_bind -IH //; last first.
  by move: a_in; rewrite inE eq_sym (negbTE ne).
by apply: eq_expected => others; rewrite expected_ret /= (negbTE ne).
Qed.
Lemma possible_find (draw_one : T -> law (tree T)) s trees a :
  possible (draw_each draw_one s) trees -> a \in s -> possible (draw_one a) (find_tree trees a).
Proof.
elim: s trees => [|b s IH] trees //= can a_in.
have [t t_drawn {}can] := possible_bind can; have [others others_drawn {}can] := possible_bind can.
rewrite (possible_ret can) /=; have [<- //|ne] := eqVneq b a.
by apply: IH => //; move: a_in; rewrite inE eq_sym (negbTE ne).
Qed.

Lemma law_draw_tree n h : in_tree h -> (size h + n = depth)%N -> is_law (draw_tree n h).
Proof.
elim: n h => [|n IH] h there size_h /=; first exact: law_ret.
apply: law_bind_possible => [|s can].
  by apply: siblings_law => //; rewrite -size_h -addSnnS leq_addr.
apply: law_bind => [|trees]; last exact: law_ret.
apply: law_draw_each => a; rewrite mem_undup => a_in.
by apply: IH; [exact: in_tree_after|rewrite size_rcons addSnnS].
Qed.

(* ------------------------------------------------------------------------------- the same law *)
Lemma decide_possible h s chosen : possible (siblings h) s ->
  possible (choose s (p (node h)) (q (node h))) chosen -> possible (decide h) (s, chosen).
Proof.
move=> drawn chose; apply: bind_possible drawn _.
by apply: bind_possible chose _; apply: ret_possible.
Qed.
Lemma reachable_in_tree h : reachable h -> (size h <= depth)%N -> in_tree h.
Proof.
elim=> [|{}h s a reached IH decided]; first by left.
rewrite size_rcons => inside; have there := IH (ltnW inside).
move: decided; rewrite /descent.decide /position => decided.
have [s' s_drawn can] := possible_bind decided; have [chosen chose {}can] := possible_bind can.
have [sE chosenE] := possible_ret can; rewrite -sE in s_drawn chose.
apply: in_tree_after => //.
by have := on_drafted reached inside s_drawn chose; rewrite -chosenE; apply.
Qed.
Lemma expected_whole_from (f : emission T -> R) n h :
  reachable h -> (size h + n = depth)%N ->
  expected f (t <- draw_tree n h ;; descend_in t n h) = expected f (descend n h).
Proof.
elim: n f h => [|n IH] f h reached size_h; first by rewrite expected_bind expected_ret.
have inside : (size h < depth)%N by rewrite -size_h -addSnnS leq_addr.
have there := reachable_in_tree reached (ltnW inside).
rewrite [draw_tree _ _]/= [descend _ _]/= /descent.decide /position !expected_bind.
apply: eq_expected_possible => s s_drawn; rewrite !expected_bind.
have below_there a : a \in s -> in_tree (rcons h (s, a)) by apply: in_tree_after.
have size_below a : (size (rcons h (s, a)) + n = depth)%N by rewrite size_rcons addSnnS.
have below_law a : a \in undup s -> is_law (draw_tree n (rcons h (s, a))).
  by rewrite mem_undup => /below_there a_there; apply: law_draw_tree.
have [_ trees1] := law_draw_each below_law.
pose go_on (c : T * bool) t : law (emission T) := if c.2 then
    below <- descend_in t n (rcons h (s, c.1)) ;; ret _ (c.1 :: below.1, below.2)
  else ret _ ([::], c.1).
transitivity (expected (fun trees => expected (fun c : T * bool =>
    expected f (go_on c (find_tree trees c.1))) (choose s (p (node h)) (q (node h))))
    (draw_each (fun a => draw_tree n (rcons h (s, a))) (undup s))).
  apply: eq_expected => trees; rewrite expected_ret /= expected_bind.
  by apply: eq_expected => -[a goes_on].
rewrite expected_swap; apply: eq_expected_possible => -[a goes_on] chose; rewrite expected_ret.
case: goes_on chose => chose; last by rewrite /go_on /= expected_const trees1 mul1r.
have a_in : a \in s := on_drafted reached inside s_drawn chose isT.
rewrite (expected_find (fun t => expected f (go_on (a, true) t)) below_law) ?mem_undup //.
have reached_below : reachable (rcons h (s, a)).
  by apply: reachable_after reached _; apply: decide_possible.
rewrite /go_on /= expected_bind -(IH _ _ reached_below) // expected_bind.
by apply: eq_expected => t; rewrite expected_bind.
Qed.
(* If the siblings have a law at every history above the last depth that a whole tree may have, and
   the rule goes on, at every history there that can be reached, only at siblings drawn there, then
   every function of the outcome has the same expectation whether the tree is drawn as a whole
   beforehand or its siblings on demand: the law of the outcome is the same. *)
Theorem whole_tree_same (f : emission T -> R) :
  expected f (verify_whole depth) = expected f (descend depth [::]).
Proof. exact: (expected_whole_from f (@reachable_root _ _ _ _ _ _)). Qed.

(* ------------------------------------------------------------------------- the target's law *)
Hypothesis complete : perm_eq vocabulary (enum T).
Hypothesis p_model : is_model p.
Hypothesis sound : forall h, reachable h -> (size h < depth)%N -> follows (p (node h)) (decide h).

Lemma nonnegative_choose h s : reachable h -> (size h < depth)%N ->
  possible (siblings h) s -> nonnegative (choose s (p (node h)) (q (node h))).
Proof.
move=> reached inside [w s_in w0] [c v] c_in.
have [siblings0 _] := siblings_law (reachable_in_tree reached (ltnW inside)) inside.
have [[decide0 _] _] := sound reached inside.
have w_gt0 : 0 < w by rewrite lt_def w0 (siblings0 _ s_in).
pose after (chosen : T * bool) := ret (field_numbers R) (s, chosen).
have chosen_in : List.In ((s, c), v * 1) (chosen <- choose s (p (node h)) (q (node h)) ;;
    after chosen).
  by apply: (bind_in (b := ((s, c), 1)) c_in); left.
have := decide0 _ (bind_in (a := (s, w)) s_in chosen_in).
by rewrite /= mulr1 pmulr_rge0.
Qed.
Lemma nonnegative_descend_in n h t : reachable h -> (size h + n = depth)%N ->
  possible (draw_tree n h) t -> nonnegative (descend_in t n h).
Proof.
elim: n h t => [|n IH] h t reached size_h /= can.
  case: (p_model (node h)) => p0 _.
  by apply: nonnegative_bind => [|a]; [apply: (nonnegative_draw complete)|apply: nonnegative_ret].
have inside : (size h < depth)%N by rewrite -size_h -addSnnS leq_addr.
have [s s_drawn {}can] := possible_bind can; have [trees trees_drawn {}can] := possible_bind can.
rewrite (possible_ret can) /=; apply: nonnegative_bind_possible => [|[a []] chose].
- exact: nonnegative_choose.
- have a_in : a \in s := on_drafted reached inside s_drawn chose isT.
  apply: nonnegative_bind => [|below]; last exact: nonnegative_ret.
  apply: IH; rewrite ?size_rcons ?addSnnS //.
    by apply: reachable_after reached _; apply: decide_possible.
  by apply: possible_find trees_drawn _; rewrite mem_undup.
exact: nonnegative_ret.
Qed.
(* If the vocabulary lists every token once, the target is a model, the siblings have a law and the
   rule goes on at siblings only, both as for `whole_tree_same`, and the token chosen has the
   target's law at every history above the last depth that can be reached, then the outcome on a
   tree drawn as a whole is a law, balanced and lossless. *)
Theorem whole_tree_sound :
  [/\ is_law (verify_whole depth), balanced p (verify_whole depth)
    & lossless p (verify_whole depth)].
Proof.
have [[_ total1] balances writes_p] := descend_sound complete p_model sound.
split; last by move=> t; rewrite -writes_p; apply: whole_tree_same.
  split; last by rewrite whole_tree_same.
  have [tree0 _] := law_draw_tree in_tree_root (erefl depth).
  apply: nonnegative_bind_possible => // t.
  by apply: nonnegative_descend_in => //; apply: reachable_root.
by move=> x a; rewrite /accepts /ends /probability !whole_tree_same; apply: balances.
Qed.
End Whole.

(* ----------------------------------------------------------- rules that are right for all rows *)
Section Schemes.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Implicit Types (p q : seq T -> T -> R) (depth : nat).

(* If the vocabulary lists every token once, both models are models, and for all rows and numbers of
   siblings the siblings have a law, the rule goes on at siblings only and its token has the
   target's law, then on a tree drawn as a whole, with as many siblings after each copy of a node as
   its history says, the outcome has the same law as with siblings drawn on demand, and it is
   balanced and lossless. *)
Theorem whole_growing_lossless (scheme : (T -> R) -> nat -> law (seq T))
    (choose : rule (field_numbers R) T) widths depth p q :
  (forall width d, is_row d -> is_law (scheme d width)) ->
  (forall r d, is_row r -> is_row d -> goes_on_drafted (fun s => choose s r d)) ->
  sound_rule scheme choose -> is_model p -> is_model q ->
  let siblings := on_demand scheme widths q in
  let m := verify_whole vocabulary p q siblings choose depth in
  (forall f : emission T -> R,
    expected f m = expected f (descend vocabulary p q siblings choose depth [::])) /\
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> scheme_law on_drafted sound p_model q_model siblings m.
have siblings_law h : in_tree siblings h -> (size h < depth)%N -> is_law (siblings h).
  by move=> _ _; apply: scheme_law.
split=> [f|]; first by apply: whole_tree_same => // h s c _ _ _; apply: on_drafted.
by apply: whole_tree_sound => // [h s c _ _ _|h _ _]; [apply: on_drafted|apply: sound].
Qed.

(* If the vocabulary lists every token once, both models are models, and siblings are drawn with
   replacement, or without until the draft has no more, as many after each copy of a node as its
   history says, then the outcome of recursive rejection on a tree drawn as a whole has the same law
   as with siblings drawn on demand, and it is balanced and lossless. *)
Theorem recursive_rejection_whole replaced widths depth p q : is_model p -> is_model q ->
  let siblings := on_demand (draw_siblings vocabulary replaced) widths q in
  let choose := recursive_rejection vocabulary replaced in
  let m := verify_whole vocabulary p q siblings choose depth in
  (forall f : emission T -> R,
    expected f m = expected f (descend vocabulary p q siblings choose depth [::])) /\
  [/\ is_law m, balanced p m & lossless p m].
Proof.
apply: whole_growing_lossless => [width d d_row|r d _ _|width r d r_row d_row].
- exact: (law_draw_siblings complete d_row).
- exact: recursive_rejection_drafted.
exact: (follows_recursive_rejection complete).
Qed.
End Schemes.
