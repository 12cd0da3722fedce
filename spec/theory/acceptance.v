(* The acceptance rate at one position: the most that any lossless rule can accept, for any joint
   law of the siblings.

   A rule sees the siblings and chooses a token, which must have the target's law; it accepts if
   this is one of the siblings. Proved: no rule accepts more than 1 + p(H) - Q(H) for any set H of
   tokens, Q(H) being the probability that all siblings lie in H; neither does any verifier that
   emits more tokens or leaves a modified target; some rule accepts as much as the smallest of these
   bounds, so that their minimum is the largest acceptance rate; and so does a verifier that is told
   the siblings alone, whatever their joint law. The rule is made from a largest flow from tokens to
   siblings: every flow is at most every cut, and over any ordered field some flow is as large as
   the smallest.
   arXiv 2502.18779; arXiv 2310.15141, section 3. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission greedy_block descent one_position.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --------------------------------------------------------------------- no rule accepts more *)
Section Bound.
Variables (R : realFieldType) (T : finType).
Local Notation law := (law (field_numbers R)).
Implicit Types (H : {set T}).

Definition mass (p : T -> R) H := \sum_(y in H) p y.

(* Siblings are drawn, in any order and number, and maybe other things that the rule is told with
   them; then the rule chooses. *)
Variables (D : Type) (siblings : D -> seq T) (drafts : law D).
Definition inside H := probability (fun d => all (mem H) (siblings d)) drafts.

Section Rule.
Variables (rule : D -> law T) (p : T -> R).
Definition chosen : law (D * T) := d <- drafts ;; y <- rule d ;; ret _ (d, y).
Definition accepted := probability (fun o => o.2 \in siblings o.1) chosen.
Definition follows := forall y, probability (fun o => o.2 == y) chosen = p y.
End Rule.

(* Any joint law of drafts and a token. *)
Lemma among_siblings_at_most (p : T -> R) (joint : law (D * T)) H : is_law joint ->
  (forall y, probability (fun o => o.2 == y) joint = p y) ->
  probability (fun o => o.2 \in siblings o.1) joint <=
  1 + mass p H - probability (fun o => all (mem H) (siblings o.1)) joint.
Proof.
move=> [j0 j1] ok.
have massE : mass p H = probability (fun o => o.2 \in H) joint.
  rewrite /mass -(eq_bigr _ (fun y _ => ok y)) -big_enum -expected_sum.
  apply: eq_expected => -[d y]; rewrite big_enum /=.
  case: (boolP (y \in H)) => [yH|yH].
    by rewrite (bigD1 y) //= eqxx big1 ?addr0 // => z /andP[_ ne]; rewrite eq_sym (negbTE ne).
  by rewrite big1 // => z zH; case: eqP => // yz; rewrite yz zH in yH.
rewrite massE -j1 -expected_add -expected_sub; apply: expected_mono => // -[d y] /=.
case: (boolP (y \in siblings d)) => [y_in|_]; last first.
  by case: (y \in H); case: (all _ _);
     rewrite ?addr0 ?subr0 ?addrK ?subrr // ?addr_ge0 ?ler01.
case: (boolP (all _ _)) => [/allP/(_ y y_in)|_]; first by rewrite inE => ->; rewrite addrK.
by rewrite subr0 ler_addl ler0n.
Qed.

(* No rule that follows p accepts more than 1 + p(H) - Q(H), for any set H of tokens, Q(H) being the
   probability that all drafts are in H. *)
Theorem accepted_at_most rule p H : is_law drafts -> (forall d, is_law (rule d)) ->
  follows rule p -> accepted rule <= 1 + mass p H - inside H.
Proof.
move=> drafts_law rule_law ok.
have joint_law : is_law (chosen rule).
  by apply: law_bind => // d; apply: law_bind => // y; exact: law_ret.
suff -> : inside H = probability (fun o => all (mem H) (siblings o.1)) (chosen rule).
  exact: among_siblings_at_most.
rewrite /probability expected_bind; apply: eq_expected => d.
have [_ r1] := rule_law d; rewrite expected_bind -[LHS]mul1r -r1 -expected_mulr.
by apply: eq_expected => y; rewrite expected_ret mul1r.
Qed.
End Bound.

(* The same for every verifier that accepts a sibling first, if it accepts anything, however many
   tokens it emits and whatever target it leaves. *)
Section AnyVerifier.
Variables (R : realFieldType) (T : finType) (D : Type) (siblings : D -> seq T).
Local Notation model := (seq T -> T -> R).
Variables (p : model) (m : law (field_numbers R) (D * (emission T * model))).
Hypothesis m_verifies : verifies siblings p m.

(* No lossless verifier, of drafts of any length and whatever model it leaves, accepts anything with
   a probability above 1 + p(H) - Q(H), for any set H of tokens, p being the target's first row and
   Q(H) the probability that all siblings are in H. *)
Theorem accepts_any_at_most (H : {set T}) : accepts_some m <=
  1 + mass (p [::]) H - probability (fun o => all (mem H) (siblings o.1)) m.
Proof.
have [m_law m_drafted m_lossless] := m_verifies.
pose first (e : emission T) := head e.2 e.1.
pose joint := o <- m ;; ret (field_numbers R) (o.1, first o.2.1).
have joint_law : is_law joint by apply: law_bind => // o; exact: law_ret.
have ok y : probability (fun o => o.2 == y) joint = p [::] y.
  rewrite -[RHS]mulr1 -[RHS]/(text (N := field_numbers R) p [::] [:: y]) -m_lossless.
  rewrite /probability !expected_bind; apply: eq_expected => -[d [[u a] M]].
  rewrite !expected_ret /begins /tokens /first /=.
  by case: u => [|b u] /=; rewrite ?prefix0s ?andbT [y == _]eq_sym; case: (_ == y);
     rewrite //= ?andbF.
have := among_siblings_at_most siblings H joint_law ok.
rewrite /probability !expected_bind => bound.
apply: le_trans (le_trans _ bound) _; last first.
  by rewrite ler_add2l ler_opp2 le_eqVlt; apply/orP; left; apply/eqP; apply: eq_expected => o;
     rewrite expected_ret.
rewrite /accepts_some /probability (@eq_expected_possible _ _ _
  (fun o => ((o.2.1.1 != [::]) && (first o.2.1 \in siblings o.1))%:R)).
  apply: expected_mono => [|o]; [by case: m_law|rewrite expected_ret /=].
  by case: (_ != _); case: (_ \in _); rewrite ?lexx ?ler01.
by move=> o /m_drafted; rewrite /first; case: o.2.1.1 => //= a u ->.
Qed.
End AnyVerifier.

(* ---------------------------------------------------------------- the largest flow, by its cut *)
Section Flow.
Variables (R : realFieldType) (T J : finType).
Implicit Types (E : {set T * J}) (H : {set T}) (p : T -> R) (w : J -> R) (S : T -> J -> R).

(* A sink pays in full unless all the sources that flow to it are in H. *)
Definition open_to E H j := [exists i, ((i, j) \in E) && (i \notin H)].
Definition cut p w E H := \sum_(i in H) p i + \sum_(j | open_to E H j) w j.

Definition is_flow p w E S := [/\ forall i j, 0 <= S i j, forall i j, (i, j) \notin E -> S i j = 0,
  forall i, \sum_j S i j <= p i & forall j, \sum_i S i j <= w j].

Lemma open_to_sub E H H' j : H \subset H' -> open_to E H' j -> open_to E H j.
Proof.
move=> /subsetP sub /existsP[i /andP[ij iH]]; apply/existsP; exists i; rewrite ij.
by apply: contra iH => /sub.
Qed.

Lemma cut_submodular p w E H H' : (forall j, 0 <= w j) ->
  cut p w E (H :|: H') + cut p w E (H :&: H') <= cut p w E H + cut p w E H'.
Proof.
move=> w0; rewrite /cut addrACA [X in _ <= X]addrACA; apply: ler_add.
  rewrite 4!(big_mkcond (fun i => i \in _)) -!big_split /=; apply: ler_sum => i _.
  by rewrite in_setU in_setI; case: (i \in H); case: (i \in H'); rewrite ?addr0 ?add0r.
rewrite 4!(big_mkcond (fun j => open_to _ _ j)) -!big_split /=; apply: ler_sum => j _.
have left_in := @open_to_sub E _ _ j (subsetUl H H').
have right_in := @open_to_sub E _ _ j (subsetUr H H').
have both : open_to E (H :&: H') j -> open_to E H j || open_to E H' j.
  case/existsP=> i /andP[ij]; rewrite in_setI negb_and => /orP[iH|iH]; apply/orP; [left|right];
    by apply/existsP; exists i; rewrite ij.
case: (open_to E (H :|: H') j) left_in right_in => [-> // -> //|_ _].
  by case: (open_to _ _ _); rewrite ?addr0 ?ler_addl.
case: (open_to E (H :&: H') j) both => [/(_ isT)|_].
  by case: (open_to E H j); case: (open_to E H' j) => // _; rewrite ?addr0 ?add0r ?ler_addl.
by case: (open_to E H j); case: (open_to E H' j); rewrite ?addr0 ?add0r ?addr_ge0.
Qed.

(* Every flow is at most every cut: for any set H of sources, the sum of all S(i, j) is at most the
   sum of p over H and of w over the sinks that an edge of E joins to a source outside H. *)
Theorem flow_at_most_cut p w E S H : is_flow p w E S -> \sum_i \sum_j S i j <= cut p w E H.
Proof.
case=> S0 S_off S_p S_w; rewrite /cut (bigID (mem H)) /=; apply: ler_add.
  by apply: ler_sum => i _; apply: S_p.
rewrite exchange_big /= [X in _ <= X]big_mkcond; apply: ler_sum => j _.
case: ifPn => [_|/existsPn closed].
  apply: le_trans (S_w j); rewrite [X in _ <= X](bigID (fun i => i \notin H)) /= ler_addl.
  exact: sumr_ge0.
by rewrite big1 // => i iH; apply: S_off; have := closed i; rewrite iH andbT.
Qed.

Let largest_of (A : Type) (s : seq A) (f : A -> R) :
  exists x, [/\ 0 <= x, forall a, List.In a s -> f a <= x
    & x = 0 \/ exists2 a, List.In a s & x = f a].
Proof.
elim: s => [|a s [x [x0 x_max x_is]]]; first by exists 0; split=> //; left.
case: (lerP (f a) x) => [ax|xa].
  exists x; split=> // [b [<- //|/x_max //]|]; case: x_is => [|[b b_in ->]]; first by left.
  by right; exists b => //; right.
exists (f a); split; first exact: le_trans x0 (ltW xa).
  by move=> b [<- //|/x_max bx]; exact: le_trans bx (ltW xa).
by right; exists a => //; left.
Qed.
Let sum_only (I : finType) (P : pred I) (a : I) (x : R) :
  \sum_(i | P i) (if i == a then x else 0) = if P a then x else 0.
Proof.
rewrite -big_mkcondr /=; case: (boolP (P a)) => Pa.
  rewrite (bigD1 a) ?Pa ?eqxx //= big1 ?addr0 // => i /andP[/andP[_ /eqP->]].
  by rewrite eqxx.
by rewrite big1 // => i /andP[Pi /eqP ia]; rewrite -ia Pi in Pa.
Qed.

(* Some flow is as large as the smallest cut: if a value is at most every cut, then the sum of all
   S(i, j) is at least that value for some flow S. *)
Theorem largest_flow p w E (value : R) : (forall i, 0 <= p i) -> (forall j, 0 <= w j) ->
  (forall H, value <= cut p w E H) ->
  exists S, is_flow p w E S /\ value <= \sum_i \sum_j S i j.
Proof.
elim: {E}#|E| {-2}E (erefl #|E|) p w value => [|n IH] E size_E p w value p0 w0 capped.
  have none : E = set0 by apply/eqP; rewrite -cards_eq0 size_E.
  exists (fun _ _ => 0); split; first split=> //.
  - by move=> i; rewrite big1.
  - by move=> j; rewrite big1.
  rewrite [X in _ <= X]big1 => [|i _]; last by rewrite big1.
  apply: le_trans (capped set0) _; rewrite /cut big_set0 add0r big1 // => j.
  by case/existsP=> i; rewrite none inE.
have /card_gt0P[[i0 j0] e_in] : (0 < #|E|)%N by rewrite size_E.
pose E' := E :\ (i0, j0).
have size_E' : #|E'| = n by move: size_E; rewrite (cardsD1 (i0, j0)) e_in => -[].
(* What flows from i0 to j0: as much as the cuts need that this flow alone would open. *)
pose cheap H := (i0 \notin H) && ~~ open_to E' H j0.
have openE H j : open_to E H j = open_to E' H j || ((j == j0) && (i0 \notin H)).
  apply/existsP/orP => [[i /andP[ij iH]]|[/existsP[i /andP[ij iH]]|/andP[/eqP-> iH]]].
  - have [[ii jj]|ne] := eqVneq (i, j) (i0, j0); first by right; rewrite jj eqxx -ii iH.
    by left; apply/existsP; exists i; rewrite in_setD1 ne ij.
  - by exists i; move: ij; rewrite in_setD1 => /andP[_ ->].
  by exists i0; rewrite e_in.
have cutE H : cut p w E H = cut p w E' H + (if cheap H then w j0 else 0).
  rewrite /cut -addrA; congr (_ + _).
  have -> : (if cheap H then w j0 else 0) = \sum_j (if j == j0 then
      (if cheap H then w j0 else 0) else 0) by rewrite sum_only.
  rewrite 2!(big_mkcond (fun j => open_to _ _ j)) -big_split; apply: eq_bigr => j _ /=.
  rewrite openE /cheap; have [->|_] := eqVneq j j0; last by rewrite orbF addr0.
  by case: (open_to E' H j0); case: (i0 \in H); rewrite /= ?addr0 ?add0r.
have [x [x0 x_max x_is]] := largest_of (enum [pred H | cheap H]) (fun H => value - cut p w E' H).
have in_enum (H : {set T}) : cheap H -> List.In H (enum [pred H | cheap H]).
  move=> cheapH; have : H \in enum [pred H | cheap H] by rewrite mem_enum.
  by elim: (enum _) => [|G s IHs] //; rewrite in_cons => /orP[/eqP->|/IHs]; [left|right].
have enum_in (H : {set T}) : List.In H (enum [pred H | cheap H]) -> cheap H.
  move=> H_in; suff : H \in enum [pred H | cheap H] by rewrite mem_enum.
  by elim: (enum _) H_in => [|G s IHs] //= [->|/IHs]; rewrite in_cons ?eqxx // => ->; rewrite orbT.
have below_x u : 0 <= u -> (forall H, cheap H -> value - cut p w E' H <= u) -> x <= u.
  by move=> u0 all_u; case: x_is => [->|[H /enum_in cheapH ->]] //; apply: all_u.
have xw : x <= w j0.
  apply: below_x => // H cheapH; rewrite ler_subl_addl.
  by apply: le_trans (capped H) _; rewrite cutE cheapH.
have xp : x <= p i0.
  apply: below_x => // H /andP[i0H _]; rewrite ler_subl_addl; apply: le_trans (capped (i0 |: H)) _.
  rewrite cutE /cheap in_setU1 eqxx addr0 /cut big_setU1 //= [cut _ _ _ _ + _]addrC.
  rewrite -addrA ler_add2l ler_add2l !(big_mkcond (fun j => open_to _ _ j)).
  apply: ler_sum => j _; have := @open_to_sub E' H (i0 |: H) j (subsetUr _ _).
  by case: (open_to E' (i0 |: H) j) => [-> //|_]; case: (open_to _ _ _).
pose p' i := p i - (if i == i0 then x else 0).
pose w' j := w j - (if j == j0 then x else 0).
have p'0 i : 0 <= p' i by rewrite /p'; case: eqP => [->|_]; rewrite ?subr0 // subr_ge0.
have w'0 j : 0 <= w' j by rewrite /w'; case: eqP => [->|_]; rewrite ?subr0 // subr_ge0.
have cut'E H : cut p' w' E' H = cut p w E' H - (if i0 \in H then x else 0)
    - (if open_to E' H j0 then x else 0).
  by rewrite /cut !sumrB !sum_only addrACA addrA.
have capped' H : value - x <= cut p' w' E' H.
  rewrite cut'E; have capH := capped H; rewrite cutE in capH.
  case: (boolP (cheap H)) => [cheapH|not_cheap].
    have := cheapH; rewrite /cheap => /andP[/negbTE-> /negbTE->]; rewrite !subr0.
    by rewrite ler_subl_addl -ler_subl_addr; exact: x_max (in_enum _ cheapH).
  rewrite (negbTE not_cheap) addr0 in capH.
  move: not_cheap; rewrite /cheap negb_and !negbK.
  case i0H: (i0 \in H); case oH: (open_to E' H j0) => //= _; rewrite ?subr0 ?ler_add2r //.
  rewrite ler_subr_addr -ler_subr_addl.
  apply: below_x => [|B cheapB]; first by rewrite subr_ge0.
  rewrite ler_subl_addr addrAC ler_subr_addr.
  apply: le_trans (cut_submodular p E' H B w0); apply: ler_add.
    by apply: le_trans (capped (H :|: B)) _; rewrite cutE /cheap in_setU i0H addr0.
  apply: le_trans (capped (H :&: B)) _; rewrite cutE /cheap.
  by rewrite (@open_to_sub E' _ _ j0 (subsetIl H B) oH) andbF addr0.
have [S [[S0 S_off S_p S_w] S_value]] := IH E' size_E' p' w' (value - x) p'0 w'0 capped'.
pose flow i j := S i j + (if (i == i0) && (j == j0) then x else 0).
have row_sum i : \sum_j flow i j = \sum_j S i j + (if i == i0 then x else 0).
  rewrite big_split /=; congr (_ + _); case: (i == i0) => /=; first by rewrite sum_only.
  by rewrite big1.
have column_sum j : \sum_i flow i j = \sum_i S i j + (if j == j0 then x else 0).
  rewrite big_split /=; congr (_ + _); case: (j == j0) => /=.
    by under eq_bigr => i _ do rewrite andbT; rewrite sum_only.
  by rewrite big1 // => i _; rewrite andbF.
exists flow; split; first split.
- by move=> i j; rewrite /flow addr_ge0 //; case: ifP.
- move=> i j ij; rewrite /flow S_off ?add0r; last by rewrite in_setD1 (negbTE ij) andbF.
  by case: ifP => // /andP[/eqP ii /eqP jj]; rewrite ii jj e_in in ij.
- by move=> i; rewrite row_sum -ler_subr_addr; exact: S_p.
- by move=> j; rewrite column_sum -ler_subr_addr; exact: S_w.
under eq_bigr => i _ do rewrite row_sum.
by rewrite big_split /= sum_only -ler_subl_addr.
Qed.
End Flow.

(* -------------------------------------------------------------------- some rule accepts as much *)
Section Best.
Variables (R : realFieldType) (T J : finType) (tokens : seq T) (draws : seq J).
Hypothesis complete : perm_eq tokens (enum T).
Hypothesis all_draws : perm_eq draws (enum J).
Local Notation law := (law (field_numbers R)).
Variables (siblings : J -> seq T) (p : T -> R) (D : J -> R).
Hypotheses (p_row : is_row p) (D_row : is_row D).
Local Notation drafts := (draw (N := field_numbers R) draws D).
Local Notation bound := (fun H => 1 + mass p H - inside siblings drafts H).

Let cut_bound H : cut p D [set e : T * J | e.1 \in siblings e.2] H = bound H.
Proof.
have [_ D1] := D_row; rewrite /cut [1 + _]addrC -addrA; congr (_ + _).
rewrite /inside /probability (expected_draw_row all_draws) // -[X in X - _]D1 -sumrB big_mkcond.
apply: eq_bigr => j _; case: (boolP (all _ _)) => [/allP in_H|/allPn[i i_in iH]].
  rewrite mulr1 subrr; case: ifP => // /existsP[i]; rewrite inE => /andP[/in_H].
  by rewrite inE => ->.
rewrite mulr0 subr0; case: ifP => // /existsP[]; exists i; rewrite inE i_in.
by rewrite inE in iH.
Qed.

Section FromFlow.
Variable S : T -> J -> R.
Hypothesis S_flow : is_flow p D [set e : T * J | e.1 \in siblings e.2] S.
Definition unused j := D j - \sum_i S i j.
Definition remaining y := p y - \sum_j S y j.
(* The flow's share of the siblings; for the rest of them, what it leaves of the target. *)
Definition flow_rule (j : J) : law T := draw (N := field_numbers R) tokens
  (fun y => if D j == 0 then p y else
     S y j / D j + unused j / D j * (remaining y / \sum_z remaining z)).

Let remaining_ge0 y : 0 <= remaining y.
Proof. by case: S_flow => _ _ used _; rewrite subr_ge0. Qed.
Let unused_ge0 j : 0 <= unused j.
Proof. by case: S_flow => _ _ _ used; rewrite subr_ge0. Qed.
Let balance : \sum_j unused j = \sum_y remaining y.
Proof.
by rewrite !sumrB (proj2 p_row) (proj2 D_row) exchange_big.
Qed.
Let none_remaining : \sum_y remaining y = 0 -> forall y, remaining y = 0.
Proof.
move=> /eqP; rewrite psumr_eq0 // => /allP none y.
by apply/eqP/(implyP (none y _)); rewrite ?mem_index_enum.
Qed.
Let none_unused : \sum_y remaining y = 0 -> forall j, unused j = 0.
Proof.
rewrite -balance => /eqP; rewrite psumr_eq0 // => /allP none j.
by apply/eqP/(implyP (none j _)); rewrite ?mem_index_enum.
Qed.

Let rule_row j : is_row (fun y => if D j == 0 then p y else
     S y j / D j + unused j / D j * (remaining y / \sum_z remaining z)).
Proof.
case: S_flow => S0 _ _ _; have [D0 _] := D_row.
have [_|Dj] := eqVneq (D j) 0; first exact: p_row.
split=> [y|]; first by rewrite addr_ge0 ?mulr_ge0 ?invr_ge0 ?sumr_ge0.
rewrite big_split /= -!mulr_suml -mulr_sumr -mulr_suml.
have [none|some] := eqVneq (\sum_y remaining y) 0; last first.
  by rewrite divff // mulr1 -mulrDl addrC subrK divff.
have := none_unused none j => /eqP; rewrite subr_eq0 => /eqP <-.
by rewrite none mul0r mulr0 addr0 divff.
Qed.
Let share j y : D j * (if D j == 0 then p y else
     S y j / D j + unused j / D j * (remaining y / \sum_z remaining z)) =
  S y j + unused j * (remaining y / \sum_z remaining z).
Proof.
case: S_flow => S0 _ _ S_D; have [Dj|Dj] := eqVneq (D j) 0; last first.
  have whole c : D j * (c / D j) = c by rewrite mulrCA divff // mulr1.
  by rewrite mulrDr whole [D j * (_ * _)]mulrA whole.
have sum0 : \sum_i S i j = 0.
  by have := S_D j; rewrite Dj => le0; apply/eqP; rewrite eq_le le0 sumr_ge0.
rewrite /unused Dj sum0 subrr !mul0r addr0; symmetry; apply/eqP; rewrite eq_le S0 andbT.
by rewrite -sum0 (bigD1 y) //= ler_addl sumr_ge0.
Qed.

Lemma flow_rule_law j : is_law (flow_rule j).
Proof. exact: law_draw_row (rule_row j). Qed.

Let expected_chosen (f : J * T -> R) : expected f (chosen drafts flow_rule) =
  \sum_j \sum_y (S y j + unused j * (remaining y / \sum_z remaining z)) * f (j, y).
Proof.
rewrite expected_bind (expected_draw_row all_draws) //; apply: eq_bigr => j _.
rewrite expected_bind (expected_draw_row complete) // mulr_sumr; apply: eq_bigr => y _.
by rewrite expected_ret mulrA share.
Qed.

Lemma flow_rule_follows : follows drafts flow_rule p.
Proof.
move=> y; rewrite /probability expected_chosen exchange_big /=.
under eq_bigr => z _ do rewrite -mulr_suml.
rewrite sum_at big_split /= -mulr_suml balance.
have [none|some] := eqVneq (\sum_y remaining y) 0; last first.
  by rewrite mulrCA divff // mulr1 addrC subrK.
have := none_remaining none y => /eqP; rewrite subr_eq0 => /eqP <-.
by rewrite none mul0r addr0.
Qed.

Lemma flow_rule_accepts : \sum_i \sum_j S i j <= accepted siblings drafts flow_rule.
Proof.
case: S_flow => S0 S_off _ _; rewrite /accepted /probability expected_chosen exchange_big /=.
apply: ler_sum => j _; apply: ler_sum => y _.
case: (boolP (y \in siblings j)) => y_in; last by rewrite mulr0 S_off // inE.
by rewrite mulr1 ler_addl mulr_ge0 // divr_ge0 // sumr_ge0.
Qed.
End FromFlow.

(* Some rule that is told which of finitely many drafts it is, siblings and maybe more beside them,
   follows p and accepts a sibling with the probability 1 + p(H) - Q(H) for some set H of tokens,
   Q(H) being the probability that all siblings are in H; no other set gives less. *)
Theorem acceptance_rate : exists (rule : J -> law T) H,
  [/\ forall j, is_law (rule j), follows drafts rule p,
      accepted siblings drafts rule = bound H & forall H', bound H <= bound H'].
Proof.
case: (@Order.TotalTheory.arg_minP _ _ _ set0 predT bound isT) => H _ least.
have capped H' : bound H <= cut p D [set e : T * J | e.1 \in siblings e.2] H'.
  by rewrite cut_bound; exact: least.
have [S [S_flow S_value]] := largest_flow (proj1 p_row) (proj1 D_row) capped.
exists (flow_rule S), H; split=> [j||| H']; last exact: least.
- exact: flow_rule_law.
- exact: flow_rule_follows.
apply/eqP; rewrite eq_le (le_trans S_value (flow_rule_accepts S_flow)) andbT.
apply: accepted_at_most; [exact: law_draw_row|exact: flow_rule_law|exact: flow_rule_follows].
Qed.
End Best.

(* --------------------------------------------------- some verifier told the siblings alone, too *)
Section Siblings.
Variables (R : realFieldType) (T : finType).
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Variables (p : model) (drafts : law (seq T)).
Hypotheses (p_model : is_model p) (drafts_law : is_law drafts).
Local Notation bound := (fun H => 1 + mass (p [::]) H - probability (all (mem H)) drafts).

(* The drafts that the law lists, and their probabilities. *)
Let J := [finType of seq_sub [seq each.1 | each <- drafts]].
Let D (j : J) : R := probability (pred1 (val j)) drafts.
Let listed : law J := draw (N := field_numbers R) (enum J) D.

Let possible_listed s : possible drafts s -> s \in [seq each.1 | each <- drafts].
Proof.
case=> w + _; elim: (drafts) => [|o m IH] //= [->|/IH s_in]; rewrite in_cons ?eqxx //.
by rewrite s_in orbT.
Qed.
Let expected_drafts f : expected f drafts = \sum_(j : J) D j * f (val j).
Proof.
under eq_bigr => j _ do rewrite -expected_mulr.
rewrite -expected_sum; apply: eq_expected_possible => s /possible_listed s_in.
rewrite (bigD1 (SeqSub s_in)) //= eqxx mul1r big1 ?addr0 // => j ne.
have -> : (s == ssval j) = false by apply: contraNF ne => /eqP same; apply/eqP/val_inj.
exact: mul0r.
Qed.
Let D_row : is_row D.
Proof.
have [drafts0 drafts1] := drafts_law; split=> [j|].
  by apply: expected_ge0 => // s; apply: ler0n.
by rewrite -drafts1 expected_drafts; apply: eq_bigr => j _; rewrite mulr1.
Qed.
Let expected_listed f : expected f listed = \sum_j D j * f j.
Proof. exact: (expected_draw_row (perm_refl _)). Qed.
Let bound_listed H : 1 + mass (p [::]) H - inside val listed H = bound H.
Proof. by rewrite /inside /probability expected_listed expected_drafts. Qed.

(* Whatever the joint law of the drafts: some lossless verifier that is told them alone accepts one
   of them with the probability 1 + p(H) - Q(H), for some set H of tokens, Q(H) being the
   probability that all drafts are in H; no other set gives less, and no lossless verifier of drafts
   of that law, whatever else it knows and whatever it leaves, accepts one more often. *)
Theorem acceptance_rate_verifiers : exists (m : law (seq T * (emission T * model))) H,
  [/\ verifies id p m, draws id drafts m, accepts_some m = bound H,
      forall H', bound H <= bound H'
    & forall D (siblings : D -> seq T) (m' : law (D * (emission T * model))),
        verifies siblings p m' -> draws siblings drafts m' -> accepts_some m' <= bound H].
Proof.
have complete : perm_eq (enum T) (enum T) by [].
have [rule [H [rule_law rule_follows rule_accepts least]]] :=
  acceptance_rate complete (perm_refl (enum J)) val (p_model [::]) D_row.
pose told s : law T := if insub s is Some j then rule j else
  draw (N := field_numbers R) (enum T) (p [::]).
have told_law s : is_law (told s).
  by rewrite /told; case: insub => [j|]; [exact: rule_law|exact: law_draw_row].
have expected_told (g : seq T -> T -> R) : expected (fun s => expected (g s) (told s)) drafts =
    expected (fun o => g (val o.1) o.2) (chosen listed rule).
  rewrite expected_drafts expected_bind expected_listed; apply: eq_bigr => j _.
  rewrite /told valK expected_bind; congr (_ * _); apply: eq_expected => y.
  by rewrite expected_ret.
pose choose : descent.rule (field_numbers R) T :=
  fun s _ _ => y <- told s ;; ret _ (y, y \in s).
have choose_law s : is_law (choose s (p [::]) (p [::])).
  by apply: law_bind => // y; exact: law_ret.
have ok : descent.follows (p [::]) (position drafts (fun s => choose s (p [::]) (p [::]))).
  apply: follows_each => // a; rewrite -rule_follows.
  apply: etrans (expected_told (fun _ y => (y == a)%:R)).
  apply: eq_expected => s; rewrite /probability expected_bind; apply: eq_expected => y.
  by rewrite expected_ret.
exists (one_position (enum T) p p drafts choose), H; split.
- apply: one_position_verifies => // s c _; rewrite /choose => can.
  by have [y _ {}can] := possible_bind can; rewrite (possible_ret can).
- exact: one_position_draws.
- rewrite one_position_accepts // -goes_on_accepted -bound_listed -rule_accepts.
  rewrite /probability expected_position.
  apply: etrans (expected_told (fun s y => (y \in s)%:R)).
  apply: eq_expected => s; rewrite expected_bind; apply: eq_expected => y.
  by rewrite expected_ret.
- by move=> H'; rewrite -!bound_listed.
move=> A siblings m' m'_verifies m'_draws.
have := accepts_any_at_most m'_verifies H.
by rewrite (m'_draws (all (mem H))).
Qed.
End Siblings.
