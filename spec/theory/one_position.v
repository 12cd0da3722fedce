(* Several drafts of one token: what SpecHub and the greedy draft accept is the most that any
   verifier of their drafts can.

   Whatever the joint law of the drafts: no verifier that is lossless accepts a sibling with a
   probability above the sum over all tokens a of min(p(a), P(a is drafted)), whatever it knows,
   however many tokens it emits and whatever target it leaves. For SpecHub's pairs, and for greedy
   drafts of any number, that sum is what the algorithm accepts, in closed form; the bound is for
   one position, and for the first one of every tree. So both are optimal for the joint law of their
   own drafts, for every vocabulary, target and draft, and of two drafts both accept as much. For
   other drafts the sum can be out of reach; acceptance.v has the optimum of all.
   arXiv 2411.05289 and 2502.18779. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission greedy_block descent rejection greedy_draft spechub.
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
Local Notation one_position := (@one_position R T vocabulary).
Local Notation descend := (@descend (field_numbers R) T vocabulary).

Section Rows.
Variables (p q : T -> R) (width : nat).
Hypotheses (p_row : is_row p) (q_row : is_row q).
Definition spechub_accepts : R :=
  probability (fun d => d.2.2) (position (draw_hub q width) (fun s => spechub s p q)).
Definition greedy_draft_accepts : R :=
  probability (fun d => d.2.2) (position (draw_greedy q width) (fun s => greedy_draft s p q)).

(* For pairs; a draft that is sure of the hub has 0 / 0, here 0, for the other tokens. *)
Theorem spechub_acceptsE hub rest : width != 1%N -> most_probable q 1 = hub :: rest ->
  spechub_accepts = p hub + \sum_(a | a != hub) Num.min (p a) (q a / (1 - q hub)).
Proof.
move=> wide found; rewrite /spechub_accepts goes_on_accepted (bigD1 hub) //=; congr (_ + _).
  by rewrite (accepted_spechub complete _ p_row q_row wide found) eqxx.
by apply: eq_bigr => a /negbTE ne; rewrite (accepted_spechub complete _ p_row q_row wide found) ne.
Qed.
(* The same for the most probable tokens, of which there may be none. *)
Theorem greedy_draft_acceptsE : let top := most_probable q width.-1 in
  greedy_draft_accepts = \sum_(a in top) p a
    + \sum_(a | a \notin top) Num.min (p a) (q a / (1 - \sum_(x in top) q x)).
Proof.
rewrite /greedy_draft_accepts goes_on_accepted (bigID (mem (most_probable q width.-1))) /=.
congr (_ + _); apply: eq_bigr => a.
  by move=> top; rewrite (accepted_greedy_draft complete) // top.
by move=> /negbTE other; rewrite (accepted_greedy_draft complete) // other.
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

(* With two drafts both accept as much. *)
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

(* No verifier of SpecHub's pairs accepts more than SpecHub. *)
Theorem spechub_optimal D (siblings : D -> seq T) (m : law (D * (emission T * model))) :
  verifies siblings p m -> draws siblings (draw_hub (q [::]) width) m ->
  accepts_some m <= spechub_accepts (p [::]) (q [::]) width.
Proof. by rewrite spechub_accepts_best //; apply: accepts_some_at_most. Qed.
(* And it is one of them. *)
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

Theorem greedy_draft_optimal D (siblings : D -> seq T) (m : law (D * (emission T * model))) :
  verifies siblings p m -> draws siblings (draw_greedy (q [::]) width) m ->
  accepts_some m <= greedy_draft_accepts (p [::]) (q [::]) width.
Proof. by rewrite greedy_draft_accepts_best //; apply: accepts_some_at_most. Qed.
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

Theorem spechub_tree_accepts : probability (fun e => e.1 != [::])
    (descend p q (growing draw_hub widths q) spechub depth.+1 [::]) =
  spechub_accepts (p [::]) (q [::]) (widths 0).
Proof.
rewrite descend_accepts_some // => [|h _ _]; last exact: follows_spechub.
by rewrite -goes_on_accepted /decide /growing mul1n.
Qed.
Theorem greedy_draft_tree_accepts : probability (fun e => e.1 != [::])
    (descend p q (growing draw_greedy widths q) greedy_draft depth.+1 [::]) =
  greedy_draft_accepts (p [::]) (q [::]) (widths 0).
Proof.
rewrite descend_accepts_some // => [|h _ _]; last exact: follows_greedy_draft.
by rewrite -goes_on_accepted /decide /growing mul1n.
Qed.
End Trees.
End Optimal.
