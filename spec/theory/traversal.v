(* Traversal verification: block verification on a tree of drafts, from the leaves to the root.

   Children are tried in order, to the end, before their parent is; a child of which nothing is kept
   leaves its parent a residual row and another weight. Proved for every vocabulary, depth, tree and
   pair of models: something at or below a node of weight w is kept with probability w, and the text
   that begins there is then the target's; a node whose first children are refused is worth the same
   with the row and the weight that they left. So the outcome is a law, and the text has the
   target's law at every horizon: for siblings with and without replacement, of any number at every
   node, and whenever each new child is drawn from the draft's row without the children before it.
   One path is block verification, one position without replacement recursive rejection.
   arXiv 2505.12398. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent rejection.
From Draftproof Require block.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T) (p q : model N T).
Local Open Scope number_scope.
Local Notation row := (row N T).
Local Notation attempt := (law N (option (emission T))).

(* The siblings in the order of their first draws: those that repeat a token are one child. *)
Fixpoint not_seen (seen siblings : seq T) : seq T :=
  if siblings is token :: siblings' then
    if token \in seen then not_seen seen siblings'
    else token :: not_seen (rcons seen token) siblings'
  else [::].
Definition children (siblings : seq T) : seq T := not_seen [::] siblings.

(* A node is kept with its weight, and the next token is drawn from its row. *)
Definition keep_node (r : row) (w : N) : attempt :=
  keeps <- coin w ;;
  if keeps then next <- draw vocabulary r ;; ret _ (Some ([::], next)) else ret _ None.

(* The children `rest` of a node in turn, then the node: `tried` were refused, and left the row r
   and the weight w. `from` is the draft's row at the node. *)
Fixpoint try_children (from : row) (keep : T -> N -> attempt) (tried rest : seq T)
    (r : row) (w : N) : attempt :=
  if rest is token :: rest' then
    let drawn := normalised vocabulary (without from tried) in
    below <- keep token (least 1 (w * r token / drawn token)) ;;
    if below is Some (accepted, next) then ret _ (Some (token :: accepted, next)) else
    let owed := excess r drawn w in
    if any vocabulary owed then
      let mass := total vocabulary owed in
      try_children from keep (rcons tried token) rest'
        (normalised vocabulary owed) (ratio_or_one mass (mass + 1 - w))
    else ret _ None
  else keep_node r w.

(* What is kept at or below a node of weight w; n: the number of tokens still to be drafted. *)
Variable siblings : history T -> law N (seq T).
Fixpoint kept (n : nat) (h : history T) (w : N) : attempt :=
  if n is n'.+1 then
    drafted <- siblings h ;;
    try_children (q (node h)) (fun token => kept n' (rcons h (drafted, token)))
      [::] (children drafted) (p (node h)) w
  else keep_node (p (node h)) w.

(* Something is kept at or below the root, which has weight 1. *)
Definition traversal (depth : nat) : law N (emission T) :=
  attempt <- kept depth [::] 1 ;; if attempt is Some e then ret _ e else [::].
End Programs.

Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments coin : simpl never.
Local Arguments expected : simpl never.
Local Arguments normalised : simpl never.
Local Arguments ratio_or_one : simpl never.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ------------------------------------------------------------------------------ the children *)
Section Children.
Variable T : finType.
Implicit Types (seen s d c : seq T) (a : T).

Lemma eq_not_seen seen seen' s : seen =i seen' -> not_seen seen s = not_seen seen' s.
Proof.
elim: s seen seen' => [|x s IH] seen seen' same //=; rewrite same; case: ifP => _; first exact: IH.
by congr (_ :: _); apply: IH => y; rewrite !mem_rcons !inE same.
Qed.
Lemma not_seen_uniq seen s :
  uniq (not_seen seen s) /\ {in not_seen seen s, forall x, x \notin seen}.
Proof.
elim: s seen => [|x s IH] seen //=; case: ifP => [_|/negbT fresh]; first exact: IH.
have [uniq_s apart] := IH (rcons seen x); split=> [|y].
  rewrite /= uniq_s andbT; apply/negP => /apart.
  by rewrite mem_rcons mem_head.
by rewrite inE => /orP[/eqP->|/apart] //; rewrite mem_rcons inE negb_or => /andP[].
Qed.
Lemma size_children s : (size (children s) <= #|T|)%N.
Proof. by have [u _] := not_seen_uniq [::] s; rewrite -(card_uniqP u) max_card. Qed.

(* After d comes another child, or d are all children. *)
Definition goes_beyond d c := prefix d c && (size d < size c)%N.
Lemma prefix_rcons_cat d a b c : prefix (rcons d a) (d ++ b :: c) = (b == a).
Proof. by rewrite -cats1 prefix_catr // eqxx prefix_cons prefix0s andbT eq_sym. Qed.
End Children.

Section Next.
Variables (R : realFieldType) (T : finType).
Lemma goes_beyond_next (d c : seq T) :
  (goes_beyond d c)%:R = \sum_a (prefix (rcons d a) c)%:R :> R.
Proof.
rewrite /goes_beyond; case: (boolP (prefix d c)) => [/prefixP[[|b s] ->]|no] /=.
- rewrite cats0 ltnn big1 // => a _; case: prefixP => // -[s] /(congr1 size) /eqP.
  by rewrite size_cat size_rcons addSn -[X in X == _]addn0 -addnS eqn_add2l.
- rewrite size_cat -[X in (X < _)%N]addn0 ltn_add2l /=.
  under eq_bigr => a _ do rewrite prefix_rcons_cat eq_sym -[_%:R]mul1r.
  by rewrite (sum_at (fun=> 1)).
rewrite big1 // => a _; case: prefixP => // -[s cs].
by move: no; rewrite cs cat_rcons prefix_prefix.
Qed.
End Next.

(* ------------------------------------------------------------------------ one node's children *)
Section OneNode.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation attempt := (law (option (emission T))).
Local Notation draw := (@draw (field_numbers R) T vocabulary).
Local Notation any := (@any (field_numbers R) T vocabulary).
Local Notation excess := (@excess (field_numbers R) T).
Local Notation without := (@without (field_numbers R) T).
Local Notation normalised := (@normalised (field_numbers R) T vocabulary).
Local Notation keep_node := (@keep_node (field_numbers R) T vocabulary).
Local Notation try_children := (@try_children (field_numbers R) T vocabulary).
Implicit Types (r b from : T -> R) (w : R) (d s : seq T) (a : T).
Implicit Types (f : option (emission T) -> R).

Let weight r b w a : R := Num.min 1 (w * r a / b a).
Let owed r b w : R := \sum_a Num.max (w * r a - b a) 0.
Let left_weight (mass w : R) : R :=
  ratio_or_one (N := field_numbers R) mass (mass + 1 - w).

Lemma owedE r b w a : excess r b w a = Num.max (w * r a - b a) 0.
Proof. exact: positive_partE. Qed.
Lemma owed_nonnegative r b w a : 0 <= excess r b w a.
Proof. by rewrite owedE le_maxr lexx orbT. Qed.
Lemma total_owed r b w : total (N := field_numbers R) vocabulary (excess r b w) = owed r b w.
Proof. by rewrite (totalE complete); apply: eq_bigr => a _; rewrite owedE. Qed.
Lemma normalised_without_ge0 from d a : (forall x, 0 <= from x) ->
  0 <= normalised (without from d) a.
Proof.
move=> from0; rewrite (normalisedE complete) divr_ge0 ?sumr_ge0 => // [|x _]; exact: without_ge0.
Qed.
Lemma owed_some r b w : any (excess r b w) -> 0 < owed r b w.
Proof.
move=> /(any_total complete (owed_nonnegative r b w)).
by under eq_bigr => a _ do rewrite owedE.
Qed.
Lemma owed_none r b w : ~~ any (excess r b w) -> forall a, Num.max (w * r a - b a) 0 = 0.
Proof.
move=> none a; apply/eqP; apply: contraR none => some.
by apply/(anyP complete); [apply: owed_nonnegative|exists a; rewrite owedE].
Qed.
Lemma left_row r b w : any (excess r b w) -> is_row (normalised (excess r b w)).
Proof.
move=> some; apply: (normalised_row complete); first exact: owed_nonnegative.
by under eq_bigr => a _ do rewrite owedE; apply: owed_some.
Qed.
Lemma left_weightE mass w : 0 < mass -> 0 <= w <= 1 ->
  0 <= left_weight mass w <= 1 /\ (mass + (1 - w)) * left_weight mass w = mass.
Proof.
move=> s0 /andP[w0 w1]; have rest : 0 <= 1 - w by rewrite subr_ge0.
have all0 : 0 < mass + (1 - w) by rewrite ltr_paddr.
rewrite /left_weight /ratio_or_one /= -addrA; rewrite (lt_geF all0).
rewrite divr_ge0 ?(ltW all0) ?(ltW s0) // ler_pdivr_mulr // mul1r ler_addl rest.
by split=> //; rewrite mulrC mulfVK ?gt_eqF.
Qed.

(* What an attempt is worth where the row is r, the weight is w, and nothing else matters. *)
Definition worth f r w : R := w * (\sum_a r a * f (Some ([::], a))) + (1 - w) * f None.

Lemma expected_keep_node f r w : is_row r -> expected f (keep_node r w) = worth f r w.
Proof.
move=> r_row; rewrite expected_bind expected_coin expected_ret expected_bind.
rewrite (expected_draw_row complete) //; congr (_ * _ + _).
by apply: eq_bigr => a _; rewrite expected_ret.
Qed.
Lemma law_keep_node r w : is_row r -> 0 <= w <= 1 -> is_law (keep_node r w).
Proof.
move=> r_row w01; apply: law_bind => [|[]]; [exact: law_coin| |exact: law_ret].
by apply: law_bind => [|a]; [apply: (law_draw_row complete)|apply: law_ret].
Qed.

(* When a child drawn from b is refused, all that b does not cover is left to the node. *)
Lemma worth_left f r b w : is_row r -> is_row b -> 0 <= w <= 1 ->
  \sum_a b a * (1 - weight r b w a) *
    (if any (excess r b w) then
      worth f (normalised (excess r b w)) (left_weight (owed r b w) w)
    else f None)
  = \sum_a Num.max (w * r a - b a) 0 * f (Some ([::], a)) + (1 - w) * f None.
Proof.
move=> [r0 r1] [b0 b1] w01; have /andP[w0 w1] := w01.
have refused : \sum_a b a * (1 - weight r b w a) = owed r b w + (1 - w).
  by apply: rejected; rewrite -?mulr_sumr ?r1 ?mulr1 // => a; apply: mulr_ge0.
rewrite -mulr_suml refused; case: ifPn => [some|none].
  have s0 := owed_some some; have [_ leftE] := left_weightE s0 w01.
  rewrite /worth mulrDr !mulrA leftE mulrBr mulr1 leftE [_ - owed _ _ _]addrC addKr.
  congr (_ + _); rewrite mulr_sumr; apply: eq_bigr => a _; rewrite mulrA; congr (_ * _).
  rewrite (normalisedE complete) owedE mulrCA; under eq_bigr => x _ do rewrite owedE.
  by rewrite divff ?mulr1 ?gt_eqF.
have all0 := owed_none none; rewrite /owed !big1 ?add0r // => a _; rewrite all0 ?mul0r //.
Qed.
(* All in all the node is worth the same. *)
Lemma worth_step f r b w : is_row r -> is_row b -> 0 <= w <= 1 ->
  \sum_a b a * (weight r b w a * f (Some ([::], a)) + (1 - weight r b w a) *
    if any (excess r b w) then
      worth f (normalised (excess r b w)) (left_weight (owed r b w) w)
    else f None)
  = worth f r w.
Proof.
move=> r_row b_row w01; have [r0 _] := r_row; have [b0 _] := b_row; have /andP[w0 _] := w01.
under eq_bigr => a _ do rewrite mulrDr !mulrA kept_share ?mulr_ge0 //.
rewrite big_split /= worth_left // [RHS]/worth addrA mulr_sumr -big_split; congr (_ + _).
by apply: eq_bigr => a _ /=; rewrite -mulrDl min_plus_excess mulrA.
Qed.

(* The outcome of trying children is a law, whatever the children are. *)
Lemma law_try_children from keep tried rest r w : (forall a, 0 <= from a) -> is_row r ->
  0 <= w <= 1 -> (forall a v, 0 <= v <= 1 -> is_law (keep a v)) ->
  is_law (try_children from keep tried rest r w).
Proof.
move=> from0 + + keep_law; elim: rest tried r w => [|a rest IH] tried r w r_row w01 /=.
  exact: law_keep_node.
have [r0 _] := r_row; have /andP[w0 _] := w01.
apply: law_bind => [|[[accepted next]|]]; last 1 first.
- case: ifP => [some|_]; last exact: law_ret.
  rewrite total_owed; apply: IH; first exact: left_row.
  by have [] := left_weightE (owed_some some) w01.
- apply: keep_law; rewrite leastE min1_in01 //; first exact: mulr_ge0.
  exact: normalised_without_ge0.
exact: law_ret.
Qed.

(* Siblings as they are drawn, so far as verification asks: after the children d another child is
   drawn from the draft's row without d, if there is another; whether there is may depend on d. *)
Definition drawn_in_turn from (siblings : law (seq T)) := is_law siblings /\ forall d a,
  probability (fun s => prefix (rcons d a) (children s)) siblings =
  normalised (without from d) a * probability (fun s => goes_beyond d (children s)) siblings.

Section Worth.
Variable from : T -> R.
Hypothesis from0 : forall a, 0 <= from a.
Variables (f : option (emission T) -> R) (keep : seq T -> T -> R -> attempt).
(* An attempt below a child, and what f makes of it at the node. *)
Definition missing (e : option (emission T)) : R := if e is None then 1 else 0.
Definition on_first a (e : option (emission T)) : R :=
  if e is Some (accepted, y) then f (Some (a :: accepted, y)) else 0.
Hypothesis keep_missing : forall s a v, 0 <= v <= 1 -> expected missing (keep s a v) = 1 - v.

Let drawn d := normalised (without from d).
Let after (go_on : seq T -> (T -> R) -> R -> R) d a r w : R :=
  if any (excess r (drawn d) w) then
    go_on (rcons d a) (normalised (excess r (drawn d) w)) (left_weight (owed r (drawn d) w) w)
  else f None.

Lemma weight_drawn01 r d w a : is_row r -> 0 <= w <= 1 -> 0 <= weight r (drawn d) w a <= 1.
Proof.
move=> [r0 _] /andP[w0 _].
by apply: min1_in01; [apply: mulr_ge0|apply: normalised_without_ge0].
Qed.
Lemma expected_try_child s d a rest r w : is_row r -> 0 <= w <= 1 ->
  expected f (try_children from (keep s) d (a :: rest) r w) =
  expected (on_first a) (keep s a (weight r (drawn d) w a)) + (1 - weight r (drawn d) w a) *
    after (fun d' r' w' => expected f (try_children from (keep s) d' rest r' w')) d a r w.
Proof.
move=> r_row w01 /=; rewrite leastE total_owed -/(drawn d) -/(weight _ _ _ a).
rewrite -(keep_missing s a (weight_drawn01 _ _ r_row w01)) expected_bind.
rewrite -expected_mulr -expected_add.
apply: eq_expected => -[[accepted next]|] /=; first by rewrite expected_ret mul0r addr0.
by rewrite add0r mul1r /after; case: ifP => _; rewrite ?expected_ret.
Qed.

Lemma only_child r b w : b =1 drawn [::] -> is_row r -> is_row b -> 0 <= w <= 1 ->
  \sum_a b a * expected f (try_children from (keep [:: a]) [::] [:: a] r w) =
  \sum_a b a * expected (on_first a) (keep [:: a] a (Num.min 1 (w * r a / b a))) +
    (\sum_a Num.max (w * r a - b a) 0 * f (Some ([::], a)) + (1 - w) * f None).
Proof.
move=> own r_row b_row w01.
have drawn_is_row : is_row (drawn [::]).
  case: b_row => b0 b1; split=> [a|]; first by rewrite -own.
  by rewrite -b1; apply: eq_bigr => a _; rewrite own.
have -> : \sum_a Num.max (w * r a - b a) 0 * f (Some ([::], a)) =
    \sum_a Num.max (w * r a - drawn [::] a) 0 * f (Some ([::], a)).
  by apply: eq_bigr => a _; rewrite own.
under eq_bigr => a _ do rewrite expected_try_child // mulrDr mulrA !own.
under [in RHS]eq_bigr => a _ do rewrite own -/(weight _ _ _ a).
rewrite -worth_left // big_split; congr (_ + _); apply: eq_bigr => a _; congr (_ * _).
rewrite /after; case: ifP => // some; rewrite [try_children _ _ _ _ _ _]/= expected_keep_node //.
exact: left_row.
Qed.

Variable siblings : law (seq T).
Hypothesis in_turn : drawn_in_turn from siblings.
Hypothesis keep_worth : forall s a v, 0 <= v <= 1 ->
  expected (on_first a) (keep s a v) = v * f (Some ([::], a)).
Let beyond d := probability (fun s => goes_beyond d (children s)) siblings.

Lemma drawn_row d : beyond d != 0 -> is_row (drawn d).
Proof.
move=> more; have total1 : \sum_a drawn d a = 1.
  apply: (mulIf more); rewrite mul1r mulr_suml -[RHS]/(expected _ _).
  rewrite (eq_expected _ (fun s => goes_beyond_next R d (children s))) expected_sum.
  by apply: eq_bigr => a _; rewrite -(proj2 in_turn).
by split=> [a|//]; apply: normalised_without_ge0.
Qed.

Lemma children_worth k d r w : is_row r -> 0 <= w <= 1 -> (#|T| <= size d + k)%N ->
  expected (fun s => (prefix d (children s))%:R *
    expected f (try_children from (keep s) d (drop (size d) (children s)) r w)) siblings
  = probability (fun s => prefix d (children s)) siblings * worth f r w.
Proof.
elim: k d r w => [|k IH] d r w r_row w01 bound.
  rewrite /probability -expected_mulr; apply: eq_expected => s.
  case: (boolP (prefix d (children s))) => [/prefixP[c cs]|_]; last by rewrite !mul0r.
  have := size_children s; rewrite cs size_cat drop_size_cat //.
  rewrite addn0 in bound; move=> /leq_trans/(_ bound).
  rewrite -[X in (_ <= X)%N]addn0 leq_add2l leqn0 => /nilP ->.
  by rewrite [try_children _ _ _ _ _ _]/= expected_keep_node.
pose later a := after (fun=> worth f) d a r w.
transitivity ((probability (fun s => prefix d (children s)) siblings - beyond d) * worth f r w
  + \sum_a probability (fun s => prefix (rcons d a) (children s)) siblings *
    (weight r (drawn d) w a * f (Some ([::], a)) + (1 - weight r (drawn d) w a) * later a)).
  pose next s a := (prefix (rcons d a) (children s))%:R *
    (weight r (drawn d) w a * f (Some ([::], a)) + (1 - weight r (drawn d) w a) *
     after (fun d' r' w' => expected f
       (try_children from (keep s) d' (drop (size d') (children s)) r' w')) d a r w).
  transitivity (expected (fun s => ((prefix d (children s))%:R - (goes_beyond d (children s))%:R)
      * worth f r w + \sum_a next s a) siblings).
    apply: eq_expected => s; rewrite /goes_beyond /next.
    case: (boolP (prefix d (children s))) => [/prefixP[[|b c] ->]|no] /=.
    - rewrite cats0 drop_size ltnn subr0 !mul1r expected_keep_node // big1 ?addr0 // => a _.
      have /negbTE -> : ~~ prefix (rcons d a) d; last by rewrite mul0r.
      by apply/negP => /size_prefix; rewrite size_rcons ltnn.
    - rewrite size_cat -[X in (X < _)%N]addn0 ltn_add2l subrr mul0r add0r mul1r drop_size_cat //.
      rewrite expected_try_child // keep_worth ?weight_drawn01 // (bigD1 b) //=.
      rewrite prefix_rcons_cat eqxx mul1r.
      rewrite big1 ?addr0 => [|a ne]; last by rewrite prefix_rcons_cat eq_sym (negbTE ne) mul0r.
      congr (_ + _ * _); rewrite /after; case: ifP => // _.
      by rewrite -cat_rcons drop_size_cat.
    rewrite subrr !mul0r add0r big1 // => a _.
    have /negbTE -> : ~~ prefix (rcons d a) (children s); last by rewrite mul0r.
    by apply: contra no => /prefixP[c ->]; rewrite cat_rcons prefix_prefix.
  rewrite expected_add expected_mulr expected_sub expected_sum; congr (_ + _).
  apply: eq_bigr => a _; rewrite /next /later /after; case: ifP => some; last first.
    by rewrite /probability expected_mulr.
  rewrite mulrDr [X in _ = _ + X]mulrCA -(IH (rcons d a)) //; first last.
  - by rewrite size_rcons addSnnS.
  - by have [] := left_weightE (owed_some some) w01.
  - exact: left_row.
  rewrite /probability -expected_mull -expected_mulr -expected_add.
  by apply: eq_expected => s; rewrite mulrDr [X in _ + X = _]mulrCA.
under eq_bigr => a _ do rewrite (proj2 in_turn) -/(beyond d) mulrAC.
rewrite -mulr_suml; have [->|more] := eqVneq (beyond d) 0; first by rewrite mulr0 addr0 subr0.
rewrite worth_step //; last exact: drawn_row.
by rewrite mulrBl [worth _ _ _ * _]mulrC subrK.
Qed.

(* The node itself: its row r and its weight w say what begins there, whatever was drafted. *)
Lemma node_worth r w : is_row r -> 0 <= w <= 1 ->
  expected (fun s => expected f (try_children from (keep s) [::] (children s) r w)) siblings
  = worth f r w.
Proof.
move=> r_row w01; have := children_worth (k := #|T|) (d := [::]) r_row w01 (leqnn _).
have [[_ total1] _] := in_turn; rewrite /probability => whole.
transitivity (expected (fun s => (prefix [::] (children s))%:R * expected f
    (try_children from (keep s) [::] (drop (size ([::] : seq T)) (children s)) r w)) siblings).
  by apply: eq_expected => s; rewrite prefix0s mul1r drop0.
rewrite whole -[RHS]mul1r -total1; congr (_ * _).
by apply: eq_expected => s; rewrite prefix0s.
Qed.
End Worth.
End OneNode.
Arguments missing {R T}.

(* -------------------------------------------------------------------------------- the tree *)
Section Tree.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Local Notation law := (law (field_numbers R)).
Local Notation text := (@text (field_numbers R) T).
Local Notation begins := (@begins (field_numbers R) T p).
Variable siblings : history T -> law (seq T).
Local Notation kept := (@kept (field_numbers R) T vocabulary p q siblings).
Local Notation traversal := (@traversal (field_numbers R) T vocabulary p q siblings).
Implicit Types (w : R) (h : history T) (z t : seq T).

Hypothesis in_turn : forall h, drawn_in_turn vocabulary (q (node h)) (siblings h).

Lemma law_kept n h w : 0 <= w <= 1 -> is_law (kept n h w).
Proof.
elim: n h w => [|n IH] h w w01 /=; first exact: (law_keep_node complete).
apply: law_bind => [|drafted]; first by case: (in_turn h).
apply: (law_try_children complete) => // [a|a v v01]; last exact: IH.
by case: (q_model (node h)).
Qed.

Lemma kept_step f n h w : 0 <= w <= 1 ->
  (forall s a u, 0 <= u <= 1 -> expected (missing) (kept n (rcons h (s, a)) u) = 1 - u) ->
  (forall s a u, 0 <= u <= 1 ->
    expected (on_first f a) (kept n (rcons h (s, a)) u) = u * f (Some ([::], a))) ->
  expected f (kept n.+1 h w) = worth f (p (node h)) w.
Proof.
move=> w01 none some; rewrite [kept _ _ _]/= expected_bind.
have [q0 _] := q_model (node h).
exact: (node_worth complete q0 none (in_turn h) some).
Qed.

(* Something at or below a node of weight w is kept with probability w. *)
Theorem kept_weight n h w : 0 <= w <= 1 -> expected (missing) (kept n h w) = 1 - w.
Proof.
have none r v : worth (missing) r v = 1 - v.
  by rewrite /worth big1 ?mulr0 ?add0r ?mulr1 // => a _; rewrite mulr0.
elim: n h w => [|n IH] h w w01; first by rewrite (expected_keep_node complete).
rewrite kept_step // => s a u u01; first exact: IH.
by rewrite mulr0 -[RHS](expected_zero (kept n (rcons h (s, a)) u)); apply: eq_expected => -[[]|].
Qed.

(* And then the text that begins there is the target's. *)
Definition begins_at z t (e : option (emission T)) : R :=
  if e is Some (accepted, y) then begins (z ++ t) (z ++ accepted, y) else 0.

Lemma begins_shorter z accepted (y : T) : begins (z ++ [::]) (z ++ accepted, y) = 1.
Proof. by rewrite cats0 /begins /tokens rcons_cat prefix_prefix. Qed.
Lemma begins_next z t (a y : T) : begins (z ++ a :: t) (z, y) = (y == a)%:R * text p (rcons z y) t.
Proof.
rewrite /begins /tokens /= -cats1 !prefix_catr // eqxx !prefix_cons prefix0s andbT /= eq_sym.
case: eqP => [->|_]; last by rewrite mul0r.
case: t => [|b t]; rewrite ?prefix0s mul1r //= cats1 -cat_rcons size_rcons.
by rewrite -(size_rcons z a) drop_size_cat.
Qed.
Lemma begins_other z t accepted (a b y : T) : a != b ->
  begins (z ++ a :: t) (z ++ b :: accepted, y) = 0.
Proof.
move=> ne; rewrite /begins /tokens rcons_cat !prefix_catr // rcons_cons !prefix_cons.
by rewrite [b == a]eq_sym (negbTE ne) !andbF.
Qed.

(* The text that begins at a node of weight w, if anything is kept there, has the target's law: it
   begins with t with w times the target's probability. *)
Theorem kept_begins n h w t : 0 <= w <= 1 ->
  expected (begins_at (node h) t) (kept n h w) = w * text p (node h) t.
Proof.
have here z t' v : worth (begins_at z t') (p z) v = v * text p z t'.
  rewrite /worth mulr0 addr0; congr (_ * _); case: t' => [|a t'] /=.
    rewrite -[RHS](proj2 (p_model z)); apply: eq_bigr => y _.
    by rewrite begins_shorter mulr1.
  under eq_bigr => y _ do rewrite cats0 begins_next mulrCA mulrC.
  by rewrite (sum_at (fun y => p z y * text p (rcons z y) t')).
elim: n h w t => [|n IH] h w t w01; first by rewrite (expected_keep_node complete) // here.
rewrite kept_step ?here // => s a u u01; first exact: kept_weight.
case: t => [|b t].
  have same e : on_first (begins_at (node h) [::]) a e = 1 - missing e.
    by case: e => [[accepted y]|] /=; rewrite ?begins_shorter ?subr0 ?subrr.
  rewrite (eq_expected _ same) expected_sub kept_weight // (proj2 (law_kept n _ u01)).
  by rewrite opprB addrC subrK /= begins_shorter mulr1.
rewrite [begins_at _ _ _]/= cats0 begins_next; have [->|ne] := eqVneq a b.
  rewrite mul1r; have := IH (rcons h (s, b)) u t u01; rewrite /node map_rcons => <-.
  by apply: eq_expected => -[[accepted y]|] //=; rewrite !cat_rcons.
rewrite mul0r mulr0 -[RHS](expected_zero (kept n (rcons h (s, a)) u)).
by apply: eq_expected => -[[accepted y]|] //=; rewrite begins_other // eq_sym.
Qed.

(* Traversal verification itself. *)
Let if_some (f : emission T -> R) (e : option (emission T)) : R := if e is Some e then f e else 0.
Let one01 : 0 <= (1 : R) <= 1. Proof. by rewrite ler01 lexx. Qed.

Lemma expected_traversal f n : expected f (traversal n) = expected (if_some f) (kept n [::] 1).
Proof. by rewrite expected_bind; apply: eq_expected => -[e|] //=; rewrite expected_ret. Qed.

(* Where every new child is drawn from the draft's row without the children before it, the outcome
   is a law. *)
Theorem traversal_law n : is_law (traversal n).
Proof.
have [kept0 kept1] := law_kept n [::] one01; split.
  by apply: nonnegative_bind => // -[e|]; [apply: nonnegative_ret|].
rewrite expected_traversal (eq_expected (g := fun e => 1 - missing e)); last first.
  by case=> [e|] /=; rewrite ?subr0 ?subrr.
by rewrite expected_sub kept1 kept_weight // subrr subr0.
Qed.
(* The text has the target's law, at every horizon. *)
Theorem traversal_lossless n : lossless p (traversal n).
Proof.
move=> t; rewrite /writes expected_traversal -[RHS]mul1r -(kept_begins n [::] t one01).
by apply: eq_expected => -[[accepted y]|].
Qed.
(* The law is balanced. *)
Theorem traversal_balanced n : balanced p (traversal n).
Proof. by apply/lossless_balanced; [apply: traversal_law|apply: traversal_lossless]. Qed.
End Tree.

(* ------------------------------------------------------------------- siblings one after another *)
Section InTurn.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation draw := (@draw (field_numbers R) T vocabulary).
Local Notation without := (@without (field_numbers R) T).
Local Notation normalised := (@normalised (field_numbers R) T vocabulary).
Variables (q : T -> R) (rows : seq T -> T -> R) (goes_on : seq T -> bool) (share : seq T -> R).
Local Notation one_by_one := (@one_by_one (field_numbers R) T vocabulary rows goes_on).
Hypothesis drawn_law : forall drawn, goes_on drawn -> is_law (draw (rows drawn)).
Hypothesis q0 : forall x, 0 <= q x.
(* Of the tokens that are not drawn yet, each has the same share of its weight. *)
Hypothesis drawn_share : forall drawn x, goes_on drawn -> x \notin drawn ->
  normalised (rows drawn) x = share drawn * q x.
Implicit Types (d drawn s : seq T).

Lemma eq_without d d' : d =i d' -> without q d =1 without q d'.
Proof. by move=> same x; rewrite /without same. Qed.
Lemma normalised_total (r : T -> R) a : (forall x, 0 <= r x) ->
  normalised r a * (\sum_x r x) = r a.
Proof.
move=> r0; rewrite (normalisedE complete); have [s0|s0] := eqVneq (\sum_x r x) 0; last first.
  by rewrite mulfVK.
rewrite s0 mulr0; have /eqP := s0; rewrite psumr_eq0 // => /allP all0.
by rewrite (eqP (implyP (all0 a _) _)) ?mem_index_enum.
Qed.

Lemma eq_normalised (r r' : T -> R) : r =1 r' -> normalised r =1 normalised r'.
Proof. by move=> same x; rewrite !(normalisedE complete) same (eq_bigr _ (fun y _ => same y)). Qed.
Lemma expected_draw_normalised (f r : T -> R) :
  expected f (draw r) = \sum_x normalised r x * f x.
Proof.
by rewrite (expected_draw complete); apply: eq_bigr => x _; rewrite (normalisedE complete).
Qed.

(* After the children d, another one is drawn from q without d. *)
Lemma another_drawn width drawn d a :
  probability (fun s => prefix (rcons d a) (not_seen drawn s)) (one_by_one width drawn)
  = normalised (without q (drawn ++ d)) a *
    probability (fun s => goes_beyond d (not_seen drawn s)) (one_by_one width drawn).
Proof.
rewrite /probability; elim: width drawn d => [|width IH] drawn d /=.
  rewrite !expected_ret /goes_beyond /= andbF mulr0.
  by case: d.
case: ifP => [on|_]; last by rewrite !expected_ret /goes_beyond /= andbF mulr0; case: d.
have others1 x : expected (fun=> 1) (one_by_one width (rcons drawn x)) = 1.
  by case: (law_one_by_one drawn_law width (rcons drawn x)).
rewrite !expected_bind !expected_draw_normalised mulr_sumr.
under eq_bigr => x _ do rewrite expected_bind.
under [in RHS]eq_bigr => x _ do rewrite expected_bind mulrCA.
have seen x : x \in drawn -> rcons drawn x =i drawn.
  by move=> there y; rewrite mem_rcons inE; case: eqP => [->|].
have old x : x \in drawn ->
    expected (fun others => expected (fun s => (prefix (rcons d a) (not_seen drawn s))%:R)
      (ret (field_numbers R) (x :: others))) (one_by_one width (rcons drawn x)) =
    normalised (without q (drawn ++ d)) a *
    expected (fun others => expected (fun s => (goes_beyond d (not_seen drawn s))%:R)
      (ret (field_numbers R) (x :: others))) (one_by_one width (rcons drawn x)).
  move=> there; have /eq_without/eq_normalised same : rcons drawn x ++ d =i drawn ++ d.
    by move=> y; rewrite !mem_cat seen.
  rewrite -same -[RHS]/(_ * expected _ _).
  transitivity (expected (fun s => (prefix (rcons d a) (not_seen (rcons drawn x) s))%:R)
    (one_by_one width (rcons drawn x))).
    apply: eq_expected => others; rewrite expected_ret /= there.
    by rewrite (eq_not_seen _ (seen x there)).
  rewrite IH; congr (_ * _); apply: eq_expected => others; rewrite expected_ret /= there.
  by rewrite (eq_not_seen _ (seen x there)).
case: d old => [|b d] old.
  rewrite cats0 in old *.
  pose n := normalised (without q drawn) a.
  have regroup (c y e m : R) : c * y * e = c * y * (m * 1) + c * (y * e - m * y).
    by rewrite mulr1 mulrBr [m * y]mulrC !mulrA addrC subrK.
  transitivity (\sum_x (normalised (rows drawn) x * (n *
    expected (fun others => expected (fun s => (goes_beyond [::] (not_seen drawn s))%:R)
      (ret (field_numbers R) (x :: others))) (one_by_one width (rcons drawn x))) +
    share drawn * (without q drawn x * (x == a)%:R - n * without q drawn x))).
    apply: eq_bigr => x _; case: (boolP (x \in drawn)) => [there|new].
      by rewrite old // /without there mul0r mulr0 subrr mulr0 addr0.
    rewrite drawn_share // -[without q drawn x]/(if _ then _ else _) (negbTE new).
    transitivity (share drawn * q x * (x == a)%:R).
      congr (_ * _); rewrite -[in RHS](mulr1 (x == a)%:R) -(others1 x) -expected_mull.
      apply: eq_expected => others; rewrite expected_ret /= (negbTE new) prefix_cons prefix0s.
      by rewrite andbT mulr1 eq_sym.
    have -> : expected (fun others => expected (fun s => (goes_beyond [::] (not_seen drawn s))%:R)
        (ret (field_numbers R) (x :: others))) (one_by_one width (rcons drawn x)) = 1.
      rewrite -[RHS](others1 x); apply: eq_expected => others.
      by rewrite expected_ret /= (negbTE new).
    exact: regroup.
  rewrite big_split /= -mulr_sumr sumrB sum_at -mulr_sumr normalised_total ?subrr ?mulr0 ?addr0 //.
  exact: without_ge0.
apply: eq_bigr => x _; congr (_ * _); case: (boolP (x \in drawn)) => [/old //|new].
transitivity ((x == b)%:R * expected (fun s => (prefix (rcons d a) (not_seen (rcons drawn x) s))%:R)
  (one_by_one width (rcons drawn x))).
  rewrite -expected_mull; apply: eq_expected => others; rewrite expected_ret /= (negbTE new).
  by rewrite prefix_cons eq_sym; case: eqP => _; rewrite ?mul1r ?mul0r.
have [xb|ne] := eqVneq x b.
  rewrite xb in new *; rewrite mul1r IH cat_rcons; congr (_ * _); apply: eq_expected => others.
  by rewrite expected_ret /goes_beyond [not_seen _ (b :: _)]/= (negbTE new) prefix_cons eqxx.
rewrite mul0r -[LHS](mulr0 (normalised (without q (drawn ++ b :: d)) a)); congr (_ * _).
rewrite -[LHS](expected_zero (one_by_one width (rcons drawn x))); apply: eq_expected => others.
rewrite expected_ret /goes_beyond [not_seen _ (x :: _)]/= (negbTE new) prefix_cons eq_sym.
by rewrite (negbTE ne).
Qed.

(* Siblings that are drawn one by one, whatever rule stops the drawing, are drawn from the row without
   the children before, whenever another child comes. *)
Theorem one_by_one_in_turn width : drawn_in_turn vocabulary q (one_by_one width [::]).
Proof.
by split=> [|d a]; [apply: (law_one_by_one drawn_law)|apply: (another_drawn width [::])].
Qed.
End InTurn.

(* ----------------------------------------------------------- trees with and without replacement *)
Section Growing.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation draw_siblings := (@draw_siblings (field_numbers R) T vocabulary).

(* Siblings with and without replacement, of any number, are drawn from the row without the children
   before, whenever another child comes. *)
Theorem siblings_in_turn replaced (q : T -> R) width : is_row q ->
  drawn_in_turn vocabulary q (draw_siblings replaced q width).
Proof.
move=> q_row; have [q0 q1] := q_row; rewrite draw_siblingsE.
apply: (one_by_one_in_turn complete (share := fun drawn =>
  if replaced then 1 else (\sum_x without (N := field_numbers R) q drawn x)^-1)) => //.
  by move=> drawn; apply: (drawn_law complete).
move=> drawn x on new; rewrite (normalisedE complete); case: replaced on => _.
  by rewrite q1 divr1 mul1r.
by rewrite mulrC /without (negbTE new).
Qed.

(* In every tree of such siblings, of any widths and depth, the outcome is a law, balanced and
   lossless. *)
Theorem growing_traversal_lossless replaced widths depth (p q : seq T -> T -> R) :
  is_model p -> is_model q ->
  let siblings := growing (draw_siblings replaced) widths q in
  let m := traversal vocabulary p q siblings depth in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
move=> p_model q_model siblings.
have in_turn h : drawn_in_turn vocabulary (q (node h)) (siblings h) by apply: siblings_in_turn.
by split; [apply: traversal_law|apply: traversal_balanced|apply: traversal_lossless].
Qed.

(* One path. *)
Section OnePath.
Variables (p q : seq T -> T -> R) (replaced : bool).
Hypotheses (p_model : is_model p) (q_model : is_model q).
Let siblings := growing (draw_siblings replaced) (fun=> 1%N) q.
Local Notation kept := (@kept (field_numbers R) T vocabulary p q siblings).

Lemma expected_one_sibling (f : seq T -> R) r : is_row r ->
  expected f (draw_siblings replaced r 1) = \sum_x r x * f [:: x].
Proof.
move=> r_row; have [r0 r1] := r_row; rewrite draw_siblingsE /one_by_one.
have -> : (if replaced then xpredT else fun drawn => any (N := field_numbers R) vocabulary
    (without r drawn)) [::] = true.
  case: replaced => //; apply/(anyP complete); first exact: without_ge0.
  case: (pickP (fun x => r x != 0)) => [x rx|none]; first by exists x.
  by case/eqP: (@oner_neq0 R); rewrite -r1 big1 // => x _; apply/eqP/negbFE/none.
rewrite expected_bind (_ : (if replaced then _ else _) [::] = r) ?(expected_draw_row complete) //.
  by apply: eq_bigr => x _; rewrite expected_bind !expected_ret.
by case: replaced.
Qed.

Lemma expected_one_child f n h w : copies h = 1%N -> 0 <= w <= 1 -> f None = 0 ->
  expected f (kept n.+1 h w) = \sum_a q (node h) a * expected (on_first f a)
      (kept n (rcons h ([:: a], a)) (Num.min 1 (w * p (node h) a / q (node h) a)))
    + \sum_a Num.max (w * p (node h) a - q (node h) a) 0 * f (Some ([::], a)).
Proof.
move=> once w01 f0; have [q0 q1] := q_model (node h); have [p0 _] := p_model (node h).
have /andP[w0 _] := w01.
have here : siblings h = draw_siblings replaced (q (node h)) 1.
  by rewrite /siblings /growing once.
have in_turn h' : drawn_in_turn vocabulary (q (node h')) (siblings h').
  exact: siblings_in_turn.
have none s a v : 0 <= v <= 1 -> expected missing (kept n (rcons h (s, a)) v) = 1 - v.
  exact: kept_weight.
rewrite [kept _ _ _]/= expected_bind here expected_one_sibling //.
have own x : q (node h) x =
    normalised (N := field_numbers R) vocabulary (without (q (node h)) [::]) x.
  by rewrite (normalisedE complete) /without q1 divr1.
by rewrite (only_child complete q0 f none own) // f0 mulr0 addr0.
Qed.

(* It is block verification. *)
Let is_end (x : seq T) (y : T) (e : option (emission T)) : R :=
  if e is Some e then (e == (x, y))%:R else 0.
Local Notation end_mass := (@block.end_mass R T p q).

Lemma kept_ends n h w x y : copies h = 1%N -> 0 <= w <= 1 ->
  expected (is_end x y) (kept n h w) = end_mass n x y (node h) w.
Proof.
elim: n h w x => [|n IH] h w x once w01.
  rewrite (expected_keep_node complete) // /worth mulr0 addr0; case: x => [|b x] /=.
    by congr (_ * _); rewrite -[RHS]sum_at; apply: eq_bigr => a _; rewrite xpair_eqE eqxx.
  by rewrite big1 ?mulr0 // => a _; rewrite mulr0.
rewrite expected_one_child //; case: x => [|b x].
  rewrite big1 ?add0r => [|a _]; last first.
    have none e : on_first (is_end [::] y) a e = 0 by case: e => [[]|].
    by rewrite (eq_expected _ none) expected_zero mulr0.
  rewrite /= -[RHS](sum_at (fun a => Num.max (w * p (node h) a - q (node h) a) 0)).
  by apply: eq_bigr => a _; rewrite xpair_eqE eqxx.
rewrite [X in _ + X]big1 ?addr0 => [|a _]; last by rewrite /= mulr0.
rewrite /= block.weight_afterE.
rewrite -(sum_at (fun a => q (node h) a * end_mass n x y (rcons (node h) a)
  (Num.min 1 (w * p (node h) a / q (node h) a))) b).
have /andP[w0 _] := w01; have [p0 _] := p_model (node h); have [q0 _] := q_model (node h).
apply: eq_bigr => a _; set v := Num.min 1 _; rewrite -[RHS]mulrA; congr (_ * _).
have v01 : 0 <= v <= 1 by apply: min1_in01; rewrite ?mulr_ge0.
have -> : rcons (node h) a = node (rcons h ([:: a], a)) by rewrite /node map_rcons.
rewrite -IH //; last by rewrite /copies rev_rcons /= eqxx.
rewrite -expected_mulr; apply: eq_expected => -[[u c]|] /=; last by rewrite mul0r.
by rewrite !xpair_eqE eqseq_cons; case: (a == b); rewrite ?mulr1 ?mulr0.
Qed.

(* On one path it is block verification: any x alone is accepted, and y is next, with the same
   probability. *)
Theorem one_path_block n x y : ends x y (traversal vocabulary p q siblings n) =
  ends x y (block.block (N := field_numbers R) vocabulary p q n).
Proof.
rewrite block.block_ends // -[RHS]/(end_mass n x y (node [::]) 1) -kept_ends ?ler01 ?lexx //.
by rewrite /ends /probability expected_traversal; apply: eq_expected => -[e|].
Qed.
End OnePath.

(* One position, siblings without replacement. *)
Section OnePosition.
Variables (p q : seq T -> T -> R) (widths : nat -> nat).
Hypotheses (p_model : is_model p) (q_model : is_model q).
Let siblings := growing (draw_siblings false) widths q.
Let start : seq T := [::].
Local Notation drawn_from := (@drawn_from (field_numbers R) T vocabulary false (q start)).
Local Notation goes_on := (fun tried =>
  any (N := field_numbers R) vocabulary (without (q start) tried)).
Local Notation one_by_one :=
  (@one_by_one (field_numbers R) T vocabulary (without (q start)) goes_on).
Implicit Types (tried : seq T) (s : seq T).

Lemma drawn_children width tried s : possible (one_by_one width tried) s -> not_seen tried s = s.
Proof.
elim: width tried s => [|width IH] tried s /=; first by move=> can; rewrite (possible_ret can).
case: ifP => [_|_] can; last by rewrite (possible_ret can).
have [x /possible_draw x_drawn {}can] := possible_bind can.
have [others /IH same {}can] := possible_bind can; rewrite (possible_ret can) /= same.
case: ifP => // there; move: x_drawn.
by rewrite (normalisedE complete) /without there mul0r eqxx.
Qed.

Lemma expected_tried (f : emission T -> R) width tried s r : is_row r ->
  possible (one_by_one width tried) s ->
  expected (fun e => if e is Some e then f e else 0) (try_children vocabulary (q start)
    (fun token => keep_node vocabulary (p [:: token])) tried s r (1 : field_numbers R)) =
  expected (fun c => if c.2 then \sum_y p [:: c.1] y * f ([:: c.1], y) else f ([::], c.1))
    (try_siblings vocabulary drawn_from tried s r).
Proof.
have ending tried' r' : is_row r' ->
    expected (fun e => if e is Some e then f e else 0) (try_children vocabulary (q start)
      (fun token => keep_node vocabulary (p [:: token])) tried' [::] r' (1 : field_numbers R)) =
    expected (fun c => if c.2 then \sum_y p [:: c.1] y * f ([:: c.1], y) else f ([::], c.1))
      (try_siblings vocabulary drawn_from tried' [::] r').
  move=> r_row /=; rewrite (expected_keep_node complete) // /worth subrr mul0r addr0 mul1r.
  rewrite expected_bind (expected_draw_row complete) //.
  by apply: eq_bigr => y _; rewrite expected_ret.
elim: width tried s r => [|width IH] tried s r r_row /=.
  by move=> can; rewrite (possible_ret can); apply: ending.
case: ifP => [on|_] can; last by rewrite (possible_ret can); apply: ending.
have [x x_drawn {}can] := possible_bind can; have bx : drawn_from tried x != 0.
  exact: (drawn_some complete (q_model start) (replaced := false) x_drawn).
have [others others_drawn {}can] := possible_bind can; rewrite (possible_ret can).
rewrite /= [LHS]expected_bind [RHS]expected_bind.
rewrite (expected_keep_node complete) // expected_coin /worth expected_ret /= !leastE mul1r.
have b_row := from_row complete (q_model start) (replaced := false) on.
rewrite -[normalised vocabulary (without (q start) tried)]/(drawn_from tried).
set b := drawn_from tried in bx b_row *; congr (_ * _ + _).
  by apply: eq_bigr => y _; rewrite expected_ret.
have [->|refused] := eqVneq (1 - Num.min 1 (r x / b x)) 0; first by rewrite !mul0r.
congr (_ * _); have left_is_row := refused_row complete r_row b_row bx refused.
have [_ left1] := left_is_row; have total1 : \sum_a excess (N := field_numbers R) r b 1 a != 0.
  apply/eqP => s0; move/eqP: left1; rewrite big1 ?(eq_sym _ 1) ?oner_eq0 // => a _.
  by rewrite (normalisedE complete) s0 invr0 mulr0.
have -> : any (N := field_numbers R) vocabulary (excess (N := field_numbers R) r b 1).
  apply: contraNT total1 => none; apply/eqP/big1 => a _.
  by rewrite owedE (owed_none complete none).
rewrite (totalE complete) addrK /ratio_or_one /= divff // if_same.
exact: IH.
Qed.

(* Of one position without replacement it is recursive rejection: the whole law is the same. *)
Theorem one_position_rejection (f : emission T -> R) :
  expected f (traversal vocabulary p q siblings 1) =
  expected f (descend vocabulary p q siblings (recursive_rejection vocabulary false) 1 [::]).
Proof.
rewrite expected_traversal expected_descend [kept _ _ _ _ _ _ _]/= expected_bind expected_position.
apply: eq_expected_possible => s; rewrite /siblings /growing draw_siblingsE => drawn_s.
rewrite /children (drawn_children drawn_s) (expected_tried f (p_model start) drawn_s).
apply: eq_expected => -[a []] /=; last by rewrite expected_ret.
rewrite !expected_bind (expected_draw_row complete) //.
by apply: eq_bigr => y _; rewrite !expected_ret.
Qed.
End OnePosition.
End Growing.
