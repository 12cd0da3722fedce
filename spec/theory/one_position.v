(* Several drafts of one token: no verifier accepts more of them than SpecHub, the greedy draft and,
   with a vocabulary of two, mixed selection.

   Whatever the joint law of the drafts: no verifier that is lossless accepts a sibling with a
   probability above the sum over all tokens a of min(p(a), P(a is drafted)), whatever it knows,
   however many tokens it emits and whatever target it leaves. That sum, in closed form, is what
   SpecHub accepts of its pairs and the greedy draft of its own drafts, of any number; so both are
   optimal for the joint law of their drafts, for every vocabulary, target and draft, at one
   position, and at the first one of every tree. Of two drafts both accept as much; and at least
   what recursive rejection accepts of two i.i.d. drafts, if the hub has enough of the draft's mass.
   For i.i.d. drafts the sum can be out of reach (acceptance.v has the optimum of all drafts), but
   not with a vocabulary of two: there mixed selection's local rule accepts it.
   arXiv 2411.05289 and 2502.18779; of mixed selection, Draftproof's own. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission greedy_block descent rejection greedy_draft spechub.
From Draftproof Require Import block selection mixed.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments expected : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ------------------------------------------------------------------------- token by token *)
Section EachToken.
Variables (R : realFieldType) (T : finType) (D : Type) (siblings : D -> seq T).
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).

(* Any joint law of drafts and a token. *)
Lemma among_siblings_each (r : T -> R) (joint : law (D * T)) : nonnegative joint ->
  (forall a, probability (fun o => o.2 == a) joint = r a) ->
  probability (fun o => o.2 \in siblings o.1) joint <=
  \sum_a Num.min (r a) (probability (fun o => a \in siblings o.1) joint).
Proof.
move=> joint0 token.
have -> : probability (fun o => o.2 \in siblings o.1) joint =
    \sum_a probability (fun o => (o.2 == a) && (a \in siblings o.1)) joint.
  rewrite -expected_sum; apply: eq_expected => -[d y] /=.
  by rewrite (bigD1 y) //= eqxx big1 ?addr0 // => a; rewrite eq_sym => /negbTE->.
apply: ler_sum => a _; rewrite le_minr -token; apply/andP; split; apply: expected_mono => // o.
  by case: (_ == a); case: (_ \in _); rewrite ?lexx ?ler01.
by case: (_ == a); case: (_ \in _); rewrite ?lexx ?ler01.
Qed.

(* A verifier of drafts, D being all that it is told of them: what it emits is lossless with the
   target that it leaves, and if it accepts anything, then one of the siblings first. *)
Definition verifies (p : model) (m : law (D * (emission T * model))) :=
  [/\ is_law m,
      forall o, possible m o -> if o.2.1.1 is a :: _ then a \in siblings o.1 else true
    & lossless_leaving p (o <- m ;; ret _ o.2)].
Definition accepts_some (m : law (D * (emission T * model))) : R :=
  probability (fun o => o.2.1.1 != [::]) m.
(* The siblings have this law. *)
Definition draws (drafts : law (seq T)) (m : law (D * (emission T * model))) :=
  forall e : pred (seq T), probability (fun o => e (siblings o.1)) m = probability e drafts.

(* No lossless verifier, whatever it knows and leaves, accepts any of its drafts with a probability
   above the sum over all tokens a of min(p(a), P(a is drafted)), p being the target's first row. *)
Theorem accepts_some_at_most p drafts m : verifies p m -> draws drafts m ->
  accepts_some m <= \sum_a Num.min (p [::] a) (drafted a drafts).
Proof.
move=> [[m0 m1] on_drafted ok] drawn; pose first (e : emission T) := head e.2 e.1.
pose joint := o <- m ;; ret (field_numbers R) (o.1, first o.2.1).
have joint0 : nonnegative joint by apply: nonnegative_bind => // o; exact: nonnegative_ret.
have token a : probability (fun o => o.2 == a) joint = p [::] a.
  rewrite -[RHS]mulr1 -[RHS]/(text (N := field_numbers R) p [::] [:: a]) -ok.
  rewrite /probability !expected_bind; apply: eq_expected => -[d [[u y] M]].
  rewrite !expected_ret /begins /tokens /first /=.
  by case: u => [|b u] /=; rewrite ?prefix0s ?andbT [_ == a]eq_sym; case: (a == _);
     rewrite //= ?andbF.
have := among_siblings_each joint0 token.
under eq_bigr => a _ do rewrite /probability expected_bind.
under eq_bigr => a _ do under eq_expected => o do rewrite expected_ret.
under eq_bigr => a _ do rewrite -/(probability (fun o => a \in siblings o.1) m)
  (drawn (fun s => a \in s)) -/(drafted a drafts).
apply: le_trans; rewrite /probability expected_bind.
rewrite /accepts_some /probability (@eq_expected_possible _ _ _
  (fun o => ((o.2.1.1 != [::]) && (first o.2.1 \in siblings o.1))%:R)).
  apply: expected_mono => // o; rewrite expected_ret /=.
  by case: (_ != _); case: (_ \in _); rewrite ?lexx ?ler01.
by move=> o /on_drafted; rewrite /first; case: o.2.1.1 => //= a u ->.
Qed.
End EachToken.

(* ----------------------------------------------------------------- a rule that accepts as much *)
Section Rule.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).

Lemma goes_on_accepted (m : law (seq T * (T * bool))) :
  probability (fun d => d.2.2) m = \sum_a accepted a m.
Proof.
rewrite -expected_sum; apply: eq_expected => -[s [b goes_on]] /=.
rewrite (bigD1 b) //= big1 ?addr0 => [|a ne]; first by rewrite xpair_eqE eqxx; case: goes_on.
by rewrite xpair_eqE eq_sym (negbTE ne).
Qed.

(* The first position of a tree. *)
Lemma descend_accepts_some (p q : model) (siblings : history T -> law (seq T)) choose depth :
  is_model p ->
  (forall h, reachable p q siblings choose h -> (size h < depth.+1)%N ->
     follows (p (node h)) (decide (N := field_numbers R) p q siblings choose h)) ->
  probability (fun e => e.1 != [::])
    (descend (N := field_numbers R) vocabulary p q siblings choose depth.+1 [::]) =
  \sum_a accepted a (decide (N := field_numbers R) p q siblings choose [::]).
Proof.
move=> p_model sound; rewrite -goes_on_accepted /probability expected_descend.
apply: eq_expected_possible => -[s [a []]] can; last by rewrite expected_ret.
have [_ total1] : is_law (descend (N := field_numbers R) vocabulary p q siblings choose depth
    [:: (s, a)]).
  apply: (law_descend_from complete p_model sound) => //.
  exact: reachable_after (reachable_root _ _ _ _) can.
by rewrite expected_bind -[RHS]total1; apply: eq_expected => e; rewrite expected_ret.
Qed.

Variables (p q : model) (drafts : law (seq T)) (choose : rule (field_numbers R) T).
Hypothesis p_model : is_model p.
Local Notation outcome := (position drafts (fun s => choose s (p [::]) (q [::]))).
Hypothesis outcome_follows : follows (p [::]) outcome.
Hypothesis choose_law : forall s, possible drafts s -> is_law (choose s (p [::]) (q [::])).
Hypothesis on_drafted : forall s chosen, possible drafts s ->
  possible (choose s (p [::]) (q [::])) chosen -> chosen.2 -> chosen.1 \in s.

(* Verification of one position, with the siblings beside what is emitted. *)
Definition one_position : law (seq T * (emission T * model)) :=
  '(s, (a, goes_on)) <- outcome ;;
  if goes_on then
    next <- draw (N := field_numbers R) vocabulary (p [:: a]) ;; ret _ (s, (([:: a], next), p))
  else ret _ (s, (([::], a), p)).

Lemma possible_position s chosen : possible outcome (s, chosen) ->
  possible drafts s /\ possible (choose s (p [::]) (q [::])) chosen.
Proof.
rewrite /position => can; have [s' s_can {}can] := possible_bind can.
by have [c c_can {}can] := possible_bind can; have [-> ->] := possible_ret can.
Qed.
Lemma one_position_emits (f : emission T -> R) : expected (fun o => f o.2.1) one_position =
  expected f (descend (N := field_numbers R) vocabulary p q (fun=> drafts) choose 1 [::]).
Proof.
rewrite expected_descend expected_bind; apply: eq_expected => -[s [a []]]; last first.
  by rewrite !expected_ret.
by rewrite !expected_bind; apply: eq_expected => b; rewrite !expected_ret.
Qed.
Lemma one_position_sound h : reachable p q (fun=> drafts) choose h -> (size h < 1)%N ->
  follows (p (node h)) (decide (N := field_numbers R) p q (fun=> drafts) choose h).
Proof. by case: h. Qed.
(* Verification of one position by a rule that follows the target and goes on at drafted tokens only
   is a lossless verifier that accepts drafts only. *)
Theorem one_position_verifies : verifies id p one_position.
Proof.
split=> [|o|t].
- apply: law_bind => [|[s [a []]]]; [by case: outcome_follows| |exact: law_ret].
  by apply: law_bind => [|next]; [exact: law_draw_row (p_model _)|exact: law_ret].
- rewrite /one_position => can; have [[s [a []]] d_can {}can] := possible_bind can; last first.
    by rewrite (possible_ret can).
  have [next _ {}can] := possible_bind can; rewrite (possible_ret can) /=.
  by have [s_can a_can] := possible_position d_can; apply: on_drafted a_can isT.
rewrite expected_bind; under eq_expected => o do rewrite expected_ret.
rewrite -(descend_lossless complete p_model one_position_sound t) /writes -one_position_emits.
apply: eq_expected_possible => o; rewrite /one_position => can.
have [[s [a []]] _ {}can] := possible_bind can; last by rewrite (possible_ret can).
by have [next _ {}can] := possible_bind can; rewrite (possible_ret can).
Qed.
(* The drafts that verification of one position tells beside what it emits have the law of the
   drafts that it was given. *)
Theorem one_position_draws : draws id drafts one_position.
Proof.
move=> e; rewrite /probability expected_bind expected_position.
apply: eq_expected_possible => s s_can; have [_ total1] := choose_law s_can.
transitivity (expected (fun=> (e s)%:R) (choose s (p [::]) (q [::]))); last first.
  by rewrite expected_const total1 mul1r.
apply: eq_expected => -[a []]; last by rewrite expected_ret.
rewrite expected_bind; under eq_expected => next do rewrite expected_ret.
have [_ next1] := law_draw_row complete (p_model [:: a]).
by rewrite /= expected_const next1 mul1r.
Qed.
(* Verification of one position accepts anything with the probability that is the sum over all
   tokens a of P(the rule accepts a). *)
Theorem one_position_accepts : accepts_some one_position = \sum_a accepted a outcome.
Proof.
rewrite /accepts_some /probability (one_position_emits (fun e => (e.1 != [::])%:R)).
exact: descend_accepts_some one_position_sound.
Qed.
End Rule.

(* ----------------------------------------------------------------- SpecHub and the greedy draft *)
Section Optimal.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Local Notation draw_hub := (@draw_hub (field_numbers R) T vocabulary).
Local Notation spechub := (@spechub (field_numbers R) T vocabulary).
Local Notation draw_greedy := (@draw_greedy (field_numbers R) T vocabulary).
Local Notation greedy_draft := (@greedy_draft (field_numbers R) T vocabulary).
Local Notation most_probable := (@most_probable (field_numbers R) T vocabulary).
Local Notation draw_iid := (@draw_iid (field_numbers R) T vocabulary).
Local Notation recursive_rejection := (@recursive_rejection (field_numbers R) T vocabulary).
Local Notation one_position := (@one_position R T vocabulary).
Local Notation descend := (@descend (field_numbers R) T vocabulary).

Section Rows.
Variables (p q : T -> R) (width : nat).
Hypotheses (p_row : is_row p) (q_row : is_row q).
Definition spechub_accepts : R :=
  probability (fun d => d.2.2) (position (draw_hub q width) (fun s => spechub s p q)).
Definition greedy_draft_accepts : R :=
  probability (fun d => d.2.2) (position (draw_greedy q width) (fun s => greedy_draft s p q)).

(* Of a pair SpecHub accepts p(hub) and the sum over all other tokens a of min(p(a), q(a) / (1 -
   q(hub))); where the draft is sure of the hub, 0 / 0 is 0. *)
Theorem spechub_acceptsE hub rest : width != 1%N -> most_probable q 1 = hub :: rest ->
  spechub_accepts = p hub + \sum_(a | a != hub) Num.min (p a) (q a / (1 - q hub)).
Proof.
move=> wide found; rewrite /spechub_accepts goes_on_accepted (bigD1 hub) //=; congr (_ + _).
  by rewrite (accepted_spechub complete _ p_row q_row wide found) eqxx.
by apply: eq_bigr => a /negbTE ne; rewrite (accepted_spechub complete _ p_row q_row wide found) ne.
Qed.
(* Of n drafts, the n - 1 most probable tokens and one drawn from the others, the verifier of the
   greedy draft accepts the sum of p(a) over these n - 1 and of min(p(a), q(a) / (1 - their mass))
   over all others; where nothing else can be drafted, 0 / 0 is 0. *)
Theorem greedy_draft_acceptsE : let top := most_probable q width.-1 in
  greedy_draft_accepts = \sum_(a in top) p a
    + \sum_(a | a \notin top) Num.min (p a) (q a / (1 - \sum_(x in top) q x)).
Proof.
rewrite /greedy_draft_accepts goes_on_accepted (bigID (mem (most_probable q width.-1))) /=.
congr (_ + _); apply: eq_bigr => a.
  by move=> top; rewrite (accepted_greedy_draft complete) // top.
by move=> /negbTE other; rewrite (accepted_greedy_draft complete) // other.
Qed.
(* Recursive rejection of two i.i.d. drafts accepts no more than SpecHub where q(hub) / (1 - q(hub))
   is at least the total variation of p and q; in general it may. *)
Theorem spechub_over_rejection hub rest : width != 1%N -> most_probable q 1 = hub :: rest ->
  (\sum_x Num.max (p x - q x) 0) * (1 - q hub) <= q hub ->
  probability (fun d => d.2.2)
    (position (draw_iid q 2) (fun s => recursive_rejection true s p q)) <= spechub_accepts.
Proof.
move=> wide found near; rewrite /spechub_accepts !goes_on_accepted; apply: ler_sum => a _.
have [p0 p1] := p_row; have [q0 q1] := q_row.
rewrite (accepted_with_replacement complete) //.
rewrite (accepted_spechub complete _ p_row q_row wide found).
have [->|ne] := eqVneq a hub; first by rewrite le_minl lexx.
have -> : rejection.reach p q 2 = 1 + \sum_x Num.max (p x - q x) 0.
  have one : rejection.reach p q 1 = 1.
    by rewrite /= big1 ?subr0 ?add0r // => x _; rewrite mul0r; apply/min_idPr.
  rewrite [LHS]/= -/(rejection.reach p q 1) one -[X in 1 + (X - _)]p1 -sumrB; congr (_ + _).
  apply: eq_bigr => x _; rewrite mul1r -{1}(min_plus_excess (p x) (q x)) minC addrC.
  exact: addKr.
rewrite le_minr le_minl lexx /= le_minl; apply/orP; right.
have [sure|unsure] := eqVneq (q hub) 1.
  by rewrite (sure_off q_row sure ne) mulr0 mul0r.
have rest0 : 0 < 1 - q hub.
  rewrite subr_gt0 lt_def eq_sym unsure -q1 (bigD1 hub) //= ler_addl.
  exact: sumr_ge0.
rewrite ler_pdivl_mulr // mulrAC -[X in _ <= X]mul1r; apply: ler_wpmul2r => //.
by rewrite mulrDl mul1r -[X in _ <= X](subrK (q hub)) ler_add2l.
Qed.
Lemma spechub_accepts_best : spechub_accepts = \sum_a Num.min (p a) (drafted a (draw_hub q width)).
Proof.
rewrite /spechub_accepts goes_on_accepted; apply: eq_bigr => a _.
exact: accepted_spechub_best.
Qed.
Lemma greedy_draft_accepts_best :
  greedy_draft_accepts = \sum_a Num.min (p a) (drafted a (draw_greedy q width)).
Proof.
rewrite /greedy_draft_accepts goes_on_accepted; apply: eq_bigr => a _.
exact: accepted_greedy_draft_best.
Qed.
End Rows.

(* With two drafts SpecHub and the verifier of the greedy draft accept with the same probability,
   for any rows p and q. *)
Theorem spechub_is_greedy_draft (p q : T -> R) : is_row p -> is_row q ->
  spechub_accepts p q 2 = greedy_draft_accepts p q 2.
Proof.
move=> p_row q_row; have [hub [rest found]] := a_hub complete q_row.
have alone : most_probable q 1 = [:: hub].
  by move: found; rewrite /most_probable; case: (sort _ _) => //= x s [-> _]; rewrite take0.
rewrite (spechub_acceptsE p_row q_row _ found) // greedy_draft_acceptsE // alone.
have in_alone a : (a \in [:: hub]) = (a == hub) by rewrite inE.
rewrite !(eq_bigl _ _ in_alone) !big_pred1_eq; congr (_ + _).
by apply: eq_bigl => a; rewrite in_alone.
Qed.

Section Models.
Variables (p q : model) (width : nat).
Hypotheses (p_model : is_model p) (q_row : is_row (q [::])).

(* No lossless verifier of drafts with the law of SpecHub's pairs, whatever it knows and leaves,
   accepts any of them with a greater probability than SpecHub. *)
Theorem spechub_optimal D (siblings : D -> seq T) (m : law (D * (emission T * model))) :
  verifies siblings p m -> draws siblings (draw_hub (q [::]) width) m ->
  accepts_some m <= spechub_accepts (p [::]) (q [::]) width.
Proof. by rewrite spechub_accepts_best //; apply: accepts_some_at_most. Qed.
(* SpecHub at one position is a lossless verifier of its own pairs, which have the law that they are
   drawn with, and accepts with the probability that no such verifier exceeds. *)
Theorem spechub_verifies : let m := one_position p q (draw_hub (q [::]) width) spechub in
  [/\ verifies id p m, draws id (draw_hub (q [::]) width) m
    & accepts_some m = spechub_accepts (p [::]) (q [::]) width].
Proof.
have follows := follows_spechub complete width (p_model [::]) q_row.
split.
- apply: one_position_verifies => // s chosen; exact: spechub_drafted.
- by apply: one_position_draws => // s; apply: law_spechub.
by rewrite one_position_accepts // -goes_on_accepted.
Qed.

(* No lossless verifier of drafts with the law of the greedy draft's, whatever it knows and leaves,
   accepts any of them with a greater probability than the verifier of the greedy draft. *)
Theorem greedy_draft_optimal D (siblings : D -> seq T) (m : law (D * (emission T * model))) :
  verifies siblings p m -> draws siblings (draw_greedy (q [::]) width) m ->
  accepts_some m <= greedy_draft_accepts (p [::]) (q [::]) width.
Proof. by rewrite greedy_draft_accepts_best //; apply: accepts_some_at_most. Qed.
(* The verifier of the greedy draft, at one position, is a lossless verifier of its own drafts,
   which have the law that they are drawn with, and accepts with the probability that no such
   verifier exceeds. *)
Theorem greedy_draft_verifies :
  let m := one_position p q (draw_greedy (q [::]) width) greedy_draft in
  [/\ verifies id p m, draws id (draw_greedy (q [::]) width) m
    & accepts_some m = greedy_draft_accepts (p [::]) (q [::]) width].
Proof.
have follows := follows_greedy_draft complete (p_model [::]) q_row width.
split.
- apply: one_position_verifies => // s chosen _; exact: greedy_draft_drafted.
- by apply: one_position_draws => // s; apply: law_greedy_draft.
by rewrite one_position_accepts // -goes_on_accepted.
Qed.
End Models.

(* In a tree, the probability that anything is accepted. *)
Section Trees.
Variables (p q : model) (widths : nat -> nat) (depth : nat).
Hypotheses (p_model : is_model p) (q_model : is_model q).

(* In every tree that draws SpecHub's pairs, SpecHub accepts a first token with the probability with
   which it accepts any of the pair at one position. *)
Theorem spechub_tree_accepts : probability (fun e => e.1 != [::])
    (descend p q (growing draw_hub widths q) spechub depth.+1 [::]) =
  spechub_accepts (p [::]) (q [::]) (widths 0).
Proof.
rewrite descend_accepts_some // => [|h _ _]; last exact: follows_spechub.
by rewrite -goes_on_accepted /decide /growing mul1n.
Qed.
(* In every tree of greedy drafts their verifier accepts a first token with the probability with
   which it accepts any of as many drafts at one position. *)
Theorem greedy_draft_tree_accepts : probability (fun e => e.1 != [::])
    (descend p q (growing draw_greedy widths q) greedy_draft depth.+1 [::]) =
  greedy_draft_accepts (p [::]) (q [::]) (widths 0).
Proof.
rewrite descend_accepts_some // => [|h _ _]; last exact: follows_greedy_draft.
by rewrite -goes_on_accepted /decide /growing mul1n.
Qed.
End Trees.
End Optimal.

(* --------------------------------------------------------------- mixed selection, of two tokens *)
Section TwoTokens.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Local Notation draw_iid := (@draw_iid (field_numbers R) T vocabulary).

Variables p q : model.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Variable count : nat.
Hypothesis some : (0 < count)%N.
Hypothesis two : #|T| = 2%N.
Let rank := in_order (by_ratio (N := field_numbers R) vocabulary p q).
Let mix := most_kept_next (N := field_numbers R) vocabulary.

(* With a vocabulary of two, no lossless verifier of K i.i.d. tokens, as the first ones of K
   independent paths are, accepts one of them more often than mixed multi-path block verification
   with the local rule and the order of p/q accepts a first token. *)
Theorem mixed_optimal_two_tokens n D (siblings : D -> seq T) (m : law (D * (emission T * model))) :
  verifies siblings p m -> draws siblings (draw_iid (q [::]) count) m ->
  accepts_some m <= probability (fun e => e.1 != [::])
    (mixed_multipath_block (N := field_numbers R) vocabulary rank mix p q count n.+1).
Proof.
move=> m_verifies m_draws; have [p0 p1] := p_model [::]; have [q0 q1] := q_model [::].
have strict_rank : strict q rank.
  by apply: strict_by_ratio => // z a; case: (q_model z).
have enough share : 0 <= share <= 1 ->
    \sum_a Num.min (p [::] a) (1 - (1 - q [::] a) ^+ count) <=
      kept_first vocabulary p q rank count share ->
    accepts_some m <= probability (fun e => e.1 != [::])
      (mixed_multipath_block (N := field_numbers R) vocabulary rank mix p q count n.+1).
  move=> share01 bound.
  apply: le_trans (most_kept_first complete p_model q_model strict_rank some n share01).
  apply: le_trans (accepts_some_at_most m_verifies m_draws) _.
  by under eq_bigr => a _ do rewrite (drafted_iid complete) //.
have [t [o [ne sums t_likely]]] : exists t o, [/\ t != o,
    forall f : T -> R, \sum_a f a = f t + f o & q [::] t <= p [::] t].
  have : size (enum T) = 2%N by rewrite -cardE.
  have := enum_uniq T; case E: (enum T) => [|x [|y [|z s]]] //=.
  rewrite !inE andbT => ne _.
  have sums (f : T -> R) : \sum_a f a = f x + f y.
    by rewrite -(sum_vocabulary (perm_refl (enum T))) E !big_cons big_nil addr0.
  have [x_likely|x_unlikely] := lerP (q [::] x) (p [::] x); first by exists x, y.
  exists y, x; split=> [|f|]; rewrite 1?eq_sym // ?sums 1?addrC //.
  rewrite -(ler_add2l (p [::] x)) -sums p1 -q1 sums ler_add2r.
  exact: ltW.
set P := p [::] t; set Q := q [::] t.
have pE : p [::] o = 1 - P by rewrite -p1 sums addrAC subrr add0r.
have qE : q [::] o = 1 - Q by rewrite -q1 sums addrAC subrr add0r.
pose B := 1 - (1 - Q) ^+ count.
have bound : \sum_a Num.min (p [::] a) (1 - (1 - q [::] a) ^+ count) <= Num.min P B + (1 - P).
  by rewrite sums -/P -/Q -/B pE ler_add2l le_minl lexx.
have at_most1 : Num.min P B + (1 - P) <= 1.
  by rewrite -[X in _ <= X](subrK P) addrC ler_add2l le_minl lexx.
have start01 : 0 <= (0 : R) <= 1 by rewrite lexx ler01.
have start : kept_first vocabulary p q rank count 0 = Num.min P Q + Num.min (1 - P) (1 - Q).
  by rewrite /kept_first sums !mul0r !add0r subr0 !mul1r pE qE.
have [same|differ] := eqVneq Q P.
  apply: (enough 0) => //; apply: le_trans bound (le_trans at_most1 _).
  by rewrite start same !minxx addrC subrK.
have [Q_zero|Q_some] := eqVneq Q 0.
  apply: (enough 0) => //; apply: le_trans bound _.
  rewrite start /B Q_zero subr0 expr1n subrr ler_add2l.
  by rewrite (min_idPl _) // ler_sub_addl ler_addr p0.
have QP : Q < P by rewrite lt_def eq_sym differ.
have Q_pos : 0 < Q by rewrite lt_def Q_some q0.
have P1 : P <= 1 by rewrite -p1 sums ler_addl p0.
have rest_pos : 0 < 1 - Q by rewrite subr_gt0 (lt_le_trans QP).
have o_below : (rank [::] o < rank [::] t)%N.
  have qo : q [::] o != 0 by rewrite qE gt_eqF.
  rewrite by_ratioE // => [|z a]; last by case: (q_model z).
  apply/orP; left; rewrite pE qE -/P -/Q ltr_pdivr_mulr // mulrAC ltr_pdivl_mulr //.
  by rewrite mulrBl mul1r mulrBr mulr1 ltr_add2r.
have lower_o : lower (N := field_numbers R) vocabulary rank q [::] o = 0.
  rewrite (lowerE complete) big_mkcond sums ltnn addr0.
  by rewrite ltnNge ltnW.
have lower_t : lower (N := field_numbers R) vocabulary rank q [::] t = 1 - Q.
  by rewrite (lowerE complete) big_mkcond sums ltnn add0r o_below.
have highest_t : first_highest vocabulary q rank count t = B.
  by rewrite /first_highest lower_t subrK expr1n.
have highest_o : first_highest vocabulary q rank count o = 1 - B.
  by rewrite /first_highest lower_o add0r qE expr0n (gtn_eqF some) subr0 /B subKr.
have keptE share : kept_first vocabulary p q rank count share =
    Num.min P (Q + share * (B - Q)) + Num.min (1 - P) (1 - (Q + share * (B - Q))).
  have line (b c : R) : share * b + (1 - share) * c = c + share * (b - c).
    by rewrite mulrBl mul1r mulrBr addrCA.
  have rest (b c : R) : share * (1 - b) + (1 - share) * (1 - c) =
      1 - (share * b + (1 - share) * c).
    by rewrite 2!mulrBr 2!mulr1 addrACA -opprD [share + _]addrC subrK.
  by rewrite /kept_first sums highest_t highest_o pE qE rest line.
have [PB|BP] := lerP P B.
  have BQ : 0 < B - Q by rewrite subr_gt0 (lt_le_trans QP).
  apply: (enough ((P - Q) / (B - Q))).
    rewrite divr_ge0 ?subr_ge0 ?(ltW QP) ?(ltW (lt_le_trans QP PB)) //=.
    by rewrite ler_pdivr_mulr // mul1r ler_add2r.
  apply: le_trans bound (le_trans at_most1 _).
  by rewrite keptE divfK ?gt_eqF // [Q + _]addrC subrK !minxx addrC subrK.
apply: (enough 1); first by rewrite ler01 lexx.
apply: le_trans bound _; rewrite keptE mul1r [Q + _]addrC subrK ler_add2l le_minr lexx.
by rewrite ler_add2l ler_opp2 ltW.
Qed.
End TwoTokens.
