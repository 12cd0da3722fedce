(* The greedy draft: the K - 1 most probable tokens, and one drawn from the others.

   The last sibling is verified against all of the target; the token goes on if it is any sibling.
   Proved for every vocabulary, target, draft and K: the token has the target's law, so every tree
   is lossless; with A the K - 1 most probable tokens, a token i is accepted with probability p(i)
   on A and min(p(i), q(i) / (1 - q(A))) elsewhere, the most that any rule can do with these
   drafts. Where A is all of q's support, q(i) / (1 - q(A)) is 0 / 0, here 0. arXiv 2502.18779. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent rejection.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T).
Local Open Scope number_scope.
Local Notation row := (row N T).
Implicit Types (p q : row).

(* The most probable tokens; equals in the order of the vocabulary; none without probability. *)
Definition most_probable q (count : nat) : seq T :=
  take count (sort (fun x y => q y <= q x) [seq x <- vocabulary | ~~ (q x <= 0)]).

Definition draw_greedy q (width : nat) : law N (seq T) :=
  let top := most_probable q width.-1 in
  if any vocabulary (without q top) then
    last <- draw vocabulary (without q top) ;; ret _ (rcons top last)
  else ret _ top.

Definition greedy_draft : rule N T := fun siblings p q =>
  if rev siblings is last :: before then
    '(token, _) <- accept_or_correct vocabulary [:: last] p
      (normalised vocabulary (without q (rev before))) ;;
    ret _ (token, token \in siblings)
  else token <- draw vocabulary p ;; ret _ (token, false).
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
Local Notation most_probable := (@most_probable (field_numbers R) T vocabulary).
Local Notation draw_greedy := (@draw_greedy (field_numbers R) T vocabulary).
Local Notation greedy_draft := (@greedy_draft (field_numbers R) T vocabulary).
Local Notation normalised := (@normalised (field_numbers R) T vocabulary).
Local Notation without := (@without (field_numbers R) T).
Local Notation any := (@any (field_numbers R) T vocabulary).

Lemma most_probable_uniq (q : T -> R) count : uniq (most_probable q count).
Proof.
by rewrite take_uniq // sort_uniq filter_uniq // (perm_uniq complete) enum_uniq.
Qed.
Lemma most_probable_some (q : T -> R) count x : x \in most_probable q count -> 0 < q x.
Proof. by move/mem_take; rewrite mem_sort mem_filter /= -ltNge => /andP[]. Qed.

Section OnePosition.
Variables p q : T -> R.
Hypotheses (p_row : is_row p) (q_row : is_row q).
Variable width : nat.
Let q0 x : 0 <= q x. Proof. by case: q_row. Qed.
Let p0 x : 0 <= p x. Proof. by case: p_row. Qed.
Let top := most_probable q width.-1.
(* The row that the last sibling is drawn from. *)
Let others := normalised (without q top).
Local Notation outcome := (position (draw_greedy q width) (fun s => greedy_draft s p q)).

Lemma others_row : any (without q top) -> is_row others.
Proof.
move=> some; apply: (normalised_row complete); first exact: without_ge0.
by apply: (any_total complete) some; apply: without_ge0.
Qed.
Lemma no_others : ~~ any (without q top) -> forall x, without q top x = 0.
Proof.
move=> none x; apply/eqP; apply: contraNT none => some.
by apply/(anyP complete); [apply: without_ge0|exists x].
Qed.
(* Where no others have mass, the last of the most probable tokens is sure, given the rest. *)
Lemma sure_last before last : ~~ any (without q top) -> top = rcons before last ->
  [/\ is_row (normalised (without q before)), normalised (without q before) last = 1
    & forall x, x != last -> normalised (without q before) x = 0].
Proof.
move=> none topE; have := most_probable_uniq q width.-1.
rewrite -/top topE rcons_uniq => /andP[last_new _].
have last_pos : 0 < q last.
  by apply: (most_probable_some (count := width.-1)); rewrite -/top topE mem_rcons mem_head.
have withoutE x : without q before x = if x == last then q last else 0.
  rewrite /without; case: eqVneq => [->|ne]; first by rewrite (negbTE last_new).
  have := no_others none x; rewrite /without topE mem_rcons inE (negbTE ne) /=.
  by case: ifP.
have sum_last : \sum_x without q before x = q last.
  rewrite -[RHS](sum_at q); apply: eq_bigr => x _; rewrite withoutE.
  by case: eqVneq => [->|_]; rewrite ?mulr1 ?mulr0.
split=> [||x ne].
- by apply: (normalised_row complete); [apply: without_ge0|rewrite sum_last].
- by rewrite (normalisedE complete) sum_last withoutE eqxx divff ?gt_eqF.
by rewrite (normalisedE complete) withoutE (negbTE ne) mul0r.
Qed.
Lemma greedy_draft_rcons before last : greedy_draft (rcons before last) p q =
  ('(token, _) <- accept_or_correct vocabulary [:: last] p (normalised (without q before)) ;;
   ret _ (token, token \in rcons before last)).
Proof. by rewrite /greedy_draft rev_rcons revK. Qed.
Lemma top_not_nil : ~~ any (without q top) -> exists before last, top = rcons before last.
Proof.
case/lastP topE: top => [|before last] none; last by exists before, last.
have [_ /eqP] := q_row; rewrite big1 ?(eq_sym 0) ?oner_eq0 // => x _.
by have := no_others; rewrite topE => /(_ none x); rewrite /without in_nil.
Qed.

Lemma law_draw_greedy : is_law (draw_greedy q width).
Proof.
rewrite /draw_greedy -/top; case: ifP => [some|_]; last exact: law_ret.
apply: law_bind => [|x]; last exact: law_ret.
apply: (law_draw complete); first exact: without_ge0.
by apply: (any_total complete) some; apply: without_ge0.
Qed.
Lemma law_greedy_draft s : possible (draw_greedy q width) s -> is_law (greedy_draft s p q).
Proof.
rewrite /draw_greedy -/top; case: ifP => [some|/negbT none] can.
  have [last last_drawn {}can] := possible_bind can; rewrite (possible_ret can) greedy_draft_rcons.
  apply: law_bind => [|[x b]]; last exact: law_ret.
  apply: (law_accept_or_correct complete) => //; first exact: others_row.
  exact: possible_draw last_drawn.
rewrite (possible_ret can); have [before [last topE]] := top_not_nil none.
have [row sure _] := sure_last none topE; rewrite topE greedy_draft_rcons.
apply: law_bind => [|[x b]]; last exact: law_ret.
by apply: (law_accept_or_correct complete) => //; rewrite sure oner_neq0.
Qed.

(* With the greedy draft, q' = q / (1 - q(A)) off the set A of the K - 1 most probable tokens and 0
   on it, the token is x with min(p, q') by the test, which accepts it, and with max(p - q', 0)
   otherwise, and then it is accepted if it is in A. *)
Theorem expected_greedy_draft (f : T * bool -> R) : expected (fun d => f d.2) outcome =
  \sum_x (Num.min (others x) (p x) * f (x, true)
          + Num.max (p x - others x) 0 * f (x, x \in top)).
Proof.
rewrite expected_position /draw_greedy -/top.
case: ifP => [some|/negbT none].
  rewrite expected_bind (expected_draw complete).
  rewrite -(expected_kept_or_corrected complete (fun y is_last => f (y, is_last || (y \in top)))
    p_row (others_row some)).
  apply: eq_bigr => x _; rewrite expected_ret greedy_draft_rcons -(normalisedE complete).
  congr (_ * _); rewrite expected_bind; apply: eq_expected => -[y b].
  by rewrite expected_ret mem_rcons inE.
rewrite expected_ret; have [before [last topE]] := top_not_nil none.
have [row sure unsure] := sure_last none topE.
have chosen := greedy_draft_rcons before last; rewrite -topE in chosen; rewrite chosen.
transitivity (\sum_x normalised (without q before) x *
    expected (fun c => f (c.1, c.1 \in top)) (accept_or_correct vocabulary [:: x] p
      (normalised (without q before)) : law (T * bool))).
  pose value x := expected (fun c => f (c.1, c.1 \in top)) (accept_or_correct vocabulary [:: x] p
    (normalised (without q before)) : law (T * bool)).
  transitivity (value last).
    rewrite [LHS]expected_bind /value; apply: eq_expected => -[y b].
    by rewrite expected_ret.
  rewrite -(sum_at value last); apply: eq_bigr => x _; rewrite mulrC -/(value x).
  by case: eqVneq => [->|ne]; [rewrite sure|rewrite unsure].
rewrite (expected_kept_or_corrected complete (fun y _ => f (y, y \in top)) p_row row).
apply: eq_bigr => x _; rewrite -mulrDl min_plus_excess.
have -> : others x = 0 by rewrite /others (normalisedE complete) no_others ?mul0r.
by rewrite (min_idPl (p0 x)) mul0r add0r subr0 (max_idPl (p0 x)).
Qed.

(* The decision with the greedy draft is a law, and its token has the law p. *)
Theorem follows_greedy_draft : follows p outcome.
Proof.
split=> [|a]; first exact: law_position law_draw_greedy law_greedy_draft.
rewrite /probability (expected_greedy_draft (fun c => (c.1 == a)%:R)) /=.
by under eq_bigr => x _ do rewrite -mulrDl min_plus_excess; rewrite sum_at.
Qed.
Lemma othersE a : a \notin top -> others a = q a / (1 - \sum_(x in top) q x).
Proof.
move=> out; rewrite /others (normalisedE complete) /without (negbTE out).
have [_ <-] := q_row; congr (_ / _).
rewrite [in RHS](bigID (mem top)) /= [RHS]addrAC subrr add0r.
by rewrite [LHS](bigID (mem top)) /= big1 ?add0r => [|x ->] //; apply: eq_bigr => x /negbTE ->.
Qed.
Lemma others_top a : a \in top -> others a = 0.
Proof. by move=> at_top; rewrite /others (normalisedE complete) /without at_top mul0r. Qed.
(* With the greedy draft, A the K - 1 most probable tokens, a token a is accepted with probability
   p(a) if it is in A, and elsewhere with min(p(a), q(a) / (1 - q(A))), where 0 / 0 is 0. *)
Theorem accepted_greedy_draft a : accepted a outcome =
  if a \in top then p a else Num.min (p a) (q a / (1 - \sum_(x in top) q x)).
Proof.
rewrite /accepted /probability (expected_greedy_draft (fun c => (c == (a, true))%:R)).
transitivity (\sum_x (Num.min (others x) (p x) + Num.max (p x - others x) 0 * (x \in top)%:R)
    * (x == a)%:R).
  apply: eq_bigr => x _; rewrite !xpair_eqE andbT mulrDl -mulrA -natrM mulnb eqb_id andbC.
  by [].
rewrite sum_at; case: ifPn => [at_top|out]; first by rewrite mulr1 min_plus_excess.
by rewrite mulr0 addr0 othersE // minC.
Qed.
Lemma drafted_greedy a : drafted a (draw_greedy q width) = if a \in top then 1 else others a.
Proof.
rewrite /drafted /draw_greedy -/top; case: ifP => [some|/negbT none]; last first.
  rewrite /probability expected_ret; case: ifPn => // _.
  by rewrite /others (normalisedE complete) no_others ?mul0r.
rewrite /probability expected_bind (expected_draw complete).
under eq_bigr => x _ do rewrite expected_ret -(normalisedE complete) mem_rcons inE.
have [_ total1] := others_row some.
case: ifPn => [at_top|out].
  by rewrite -[RHS]total1; apply: eq_bigr => x _; rewrite orbT mulr1.
by rewrite -[RHS](sum_at others); apply: eq_bigr => x _; rewrite orbF eq_sym.
Qed.
(* With the greedy draft a token a is accepted with probability min(p(a), P(a is drafted)). *)
Theorem accepted_greedy_draft_best a :
  accepted a outcome = Num.min (p a) (drafted a (draw_greedy q width)).
Proof.
rewrite accepted_greedy_draft drafted_greedy; case: ifPn => [_|/othersE -> //].
apply/esym/min_idPl; have [_ <-] := p_row; rewrite (bigD1 a) //= ler_addl.
exact: sumr_ge0.
Qed.
End OnePosition.

(* The rule of the greedy draft goes on only at a token that is among the siblings. *)
Theorem greedy_draft_drafted (p q : T -> R) : goes_on_drafted (fun s => greedy_draft s p q).
Proof.
move=> s chosen; case/lastP: s => [|s x].
  rewrite /greedy_draft /= => can; have [y _ {}can] := possible_bind can.
  by rewrite (possible_ret can).
rewrite greedy_draft_rcons => can; have [[y b] _ {}can] := possible_bind can.
by rewrite (possible_ret can).
Qed.
(* In a tree that draws greedy drafts on demand, as many siblings after each copy of a node as its
   history says, but at least one, and no more than the draft has tokens with probability, the
   outcome of the greedy draft's rule is a law, balanced and lossless. *)
Theorem greedy_draft_lossless widths depth (p q : seq T -> T -> R) : is_model p -> is_model q ->
  let m := descend (N := field_numbers R) vocabulary p q (on_demand draw_greedy widths q)
    greedy_draft depth [::] in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> p_model q_model; apply: (growing_lossless complete) => // width r d r_row d_row.
exact: follows_greedy_draft.
Qed.
End Theorems.
