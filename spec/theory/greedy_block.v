(* Greedy block verification: accept whatever draft and target share, and leave the rest to be
   written later, by a modified target.

   The path may have been drafted, or selected from several drafts: the programs only need the law q
   of the path. Proved for every vocabulary, length and pair of models: the law of what is accepted
   and of the next token; that the text, continued by the modified target, has the target's law at
   every horizon; that repeated iterations keep this law, each against the target that the last one
   left, with new drafts; the expected accepted length; and that no lossless verifier of such a
   path, of which it is one itself, accepts any prefix more often, whatever target it leaves. Proved
   of any lossless iterations that leave the target as it is: written one after the other, they keep
   the target's law.
   arXiv 2403.10444, appendix. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T) (p q : model N T).
Local Open Scope number_scope.

Definition greatest (a b : N) : N := if a <= b then b else a.

(* The ratio of target to draft for za, from that for z; it may exceed 1. *)
Definition ratio_after (z : seq T) (w : N) (a : T) : N := w * p z a / q z a.

(* The coin of a prefix that is not the whole path. *)
Definition pass_probability (z : seq T) (w : N) : N :=
  let more := total vocabulary (excess (p z) (q z) w) in
  let less := more + (1 - w) in ratio_or_one more (greatest more less).

(* What is kept of the tokens `rest` that follow z, if the coin of z or one after it passes; coins
   are thrown from the end of the path. *)
Fixpoint longest (rest z : seq T) (w : N) : law N (option (seq T)) :=
  if rest is a :: rest' then
    later <- longest rest' (rcons z a) (ratio_after z w a) ;;
    if later is Some kept then ret _ (Some (a :: kept)) else
    passes <- coin (pass_probability z w) ;; ret _ (if passes then Some [::] else None)
  else
    passes <- coin (least 1 w) ;; ret _ (if passes then Some [::] else None).

(* The empty prefix needs no coin. *)
Definition keep (path : seq T) : law N (seq T) :=
  if path is a :: rest then
    later <- longest rest [:: a] (ratio_after [::] 1 a) ;;
    ret _ (if later is Some kept then a :: kept else [::])
  else ret _ [::].

(* The mass of a text that no draft can cover. *)
Definition uncovered (t : seq T) : N := positive_part (text p [::] t - text q [::] t).

(* The target that an iteration leaves; contexts count from the start of the iteration. Where
   nothing is owed the own row stays. *)
Definition modified (length : nat) : model N T := fun z =>
  let owed := fun a => uncovered (rcons z a) in
  if (size z < length)%N then
    if total vocabulary owed <= 0 then p z else normalised vocabulary owed
  else p z.

Definition verify (length : nat) (path : seq T) : law N (emission T) :=
  accepted <- keep path ;;
  next <- draw vocabulary (modified length accepted) ;; ret _ (accepted, next).

Definition greedy_block (length : nat) (selected : law N (seq T)) : law N (emission T) :=
  path <- selected ;; verify length path.
End Programs.

Section Iterations.
Variables (N : numbers) (T : eqType) (vocabulary : seq T).
Local Open Scope number_scope.

(* A model once u is written. *)
Definition after (p : model N T) (u : seq T) : model N T := fun z => p (u ++ z).

(* One iteration of a verifier: an emission, and the target that it leaves, whose contexts count
   from the start of the iteration. *)
Definition iteration := law N (emission T * model N T).

(* The text that some iterations write, and the target that they leave. An iteration may depend on
   all that was written before, and has to verify against the target that the last one left. *)
Fixpoint decoded (iterate : seq T -> model N T -> iteration) (count : nat) (written : seq T)
    (p : model N T) : law N (seq T * model N T) :=
  if count is count'.+1 then
    one <- iterate written p ;;
    rest <- decoded iterate count' (written ++ tokens one.1) (after one.2 (tokens one.1)) ;;
    ret _ (tokens one.1 ++ rest.1, rest.2)
  else ret _ ([::], p).

(* Greedy block verification of a path selected by any means: the means, the law of the path, and
   its length may depend on what was written and on the target that is left. *)
Definition greedy_iteration (length : seq T -> model N T -> nat)
    (selected : seq T -> model N T -> law N (seq T)) (q : seq T -> model N T -> model N T)
    (written : seq T) (p : model N T) : iteration :=
  let n := length written p in
  emitted <- greedy_block vocabulary p (q written p) n (selected written p) ;;
  ret _ (emitted, modified vocabulary p (q written p) n).

(* The probability that a text begins with t, if u is written and p writes what follows. *)
Definition begins_after (p : model N T) (t u : seq T) : N :=
  if prefix t u then 1 else if prefix u t then text p [::] (drop (size u) t) else 0.
End Iterations.
Arguments iteration N T : clear implicits.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---------------------------------------------------------------------------------- general *)
Section General.
Variable R : realFieldType.
Local Notation law := (law (field_numbers R)).

Lemma expected_mono_in A (f g : A -> R) (m : law A) : nonnegative m ->
  (forall o, List.In o m -> f o.1 <= g o.1) -> expected f m <= expected g m.
Proof.
elim: m => [|o m IH] // m0 fg; rewrite !expected_cons ler_add //.
  by apply: ler_wpmul2l; [apply: m0; left|apply: fg; left].
by apply: IH => [b b_in|b b_in]; [apply: m0; right|apply: fg; right].
Qed.

Lemma law_bind_in A B (m : law A) (k : A -> law B) :
  is_law m -> (forall a, List.In a m -> is_law (k a.1)) -> is_law (x <- m ;; k x).
Proof.
move=> [m0 m1] k_law; split; last first.
  by rewrite expected_bind -[RHS]m1; apply: eq_expected_in => a /k_law[].
elim: m m0 {m1} k_law => [|a m IH] m0 k_law //= b.
rewrite /bind /= => /(@List.in_app_or _ _ _ _)[|b_in]; last first.
  by apply: IH b_in => c c_in; [apply: m0|apply: k_law]; right.
case/List.in_map_iff=> c [<-]; have [|k0 _ /k0 c0 /=] := k_law a; first by left.
by apply: mulr_ge0 c0; apply: m0; left.
Qed.

Lemma expected_by_outcome (A : eqType) (f : A -> R) (m : law A) (s : seq A) : uniq s ->
  (forall o, List.In o m -> o.1 \in s) ->
  expected f m = \sum_(a <- s) f a * probability (pred1 a) m.
Proof.
move=> s_uniq; elim: m => [|o m IH] s_all.
  by rewrite big1 // => a _; rewrite /probability expected_nil mulr0.
rewrite expected_cons IH => [|b b_in]; last by apply: s_all; right.
have o_in : o.1 \in s by apply: s_all; left.
transitivity (\sum_(a <- s) (f a * (o.2 * (o.1 == a)%:R) + f a * probability (pred1 a) m)).
  rewrite big_split /=; congr (_ + _).
  rewrite (bigD1_seq o.1) //= eqxx mulr1 mulrC big1 ?addr0 // => a ne.
  by rewrite eq_sym (negbTE ne) !mulr0.
by apply: eq_bigr => a _; rewrite -mulrDr /probability expected_cons.
Qed.
Lemma same_law_expected (A : eqType) (f : A -> R) (m m' : law A) :
  (forall a, probability (pred1 a) m = probability (pred1 a) m') -> expected f m = expected f m'.
Proof.
move=> same; pose s := undup ([seq o.1 | o <- m] ++ [seq o.1 | o <- m']).
have in_map (l : law A) o : List.In o l -> o.1 \in [seq o.1 | o <- l].
  by elim: l => [|b l IH] //= [<-|/IH o_in]; rewrite in_cons ?eqxx ?o_in ?orbT.
rewrite !(@expected_by_outcome _ _ _ s) ?undup_uniq // => [|o o_in|o o_in].
- by apply: eq_bigr => a _; rewrite same.
- by rewrite mem_undup mem_cat (in_map m') ?orbT.
by rewrite mem_undup mem_cat (in_map m).
Qed.

Lemma max_flip (a b : R) : Num.max (a - b) 0 + (b - a) = Num.max (b - a) 0.
Proof.
apply: (@addrI _ (Num.min a b)).
by rewrite min_plus_excess addrA [in X in X + _]minC min_plus_excess addrCA subrr addr0.
Qed.
Lemma one_minus_max (w : R) : 1 - Num.max (1 - w) 0 = Num.min 1 w.
Proof. by rewrite -[X in X - _](min_plus_excess 1 w) addrK minC. Qed.

Section Texts.
Variable T : finType.
Implicit Types (x u t z : seq T).

Lemma prefix_split x u : (u == x)%:R = (prefix x u)%:R - \sum_b (prefix (rcons x b) u)%:R :> R.
Proof.
have [/prefixP[s ->]|no] := boolP (prefix x u); last first.
  rewrite big1 => [|b _].
    rewrite subrr; case: eqP no => // ->; by rewrite prefix_refl.
  case: (boolP (prefix _ _)) => // /prefixP[s us].
  by case/negP: no; rewrite us -cats1 -catA prefix_prefix.
case: s => [|a s].
  rewrite cats0 eqxx big1 ?subr0 // => b _.
  by case: (boolP (prefix _ _)) => // /size_prefix; rewrite size_rcons ltnn.
rewrite -[X in _ == X]cats0 eqseq_cat // eqxx /=.
rewrite (bigD1 a) //= -cat_rcons prefix_prefix big1 ?addr0 ?subrr // => b ne.
by rewrite cat_rcons -cats1 prefix_catr // eqxx /= (negbTE ne).
Qed.

Lemma prefix_catE t u v :
  prefix t (u ++ v) = prefix t u || (prefix u t && prefix (drop (size u) t) v).
Proof.
elim: u t => [|a u IH] [|b t]; rewrite ?prefix0s ?drop0 ?cat_cons ?prefix_cons //=.
by rewrite IH [a == b]eq_sym andb_orr andbA.
Qed.
(* A length counts the prefixes. *)
Lemma prefixes_of_size k u :
  \sum_(x : k.-tuple T) (prefix x u)%:R = (k <= size u)%N%:R :> R.
Proof.
case: leqP => [ku|uk]; last first.
  rewrite big1 // => x _; case: (boolP (prefix x u)) => // /size_prefix.
  by rewrite size_tuple leqNgt uk.
have size_x : size (take k u) == k by rewrite size_takel.
rewrite (bigD1 (Tuple size_x)) //= prefix_take big1 ?addr0 // => x ne.
rewrite prefixE size_tuple; case: eqP => // e; case/eqP: ne; exact: val_inj.
Qed.
Lemma size_by_prefixes n u : (size u <= n)%N ->
  (size u)%:R = \sum_(k < n) \sum_(x : k.+1.-tuple T) (prefix x u)%:R :> R.
Proof.
move=> un; under eq_bigr do rewrite prefixes_of_size.
rewrite -natr_sum; congr _%:R; elim: n un => [|n IH].
  by rewrite leqn0 big_ord0 => /eqP.
rewrite big_ord_recr /= leq_eqVlt => /orP[/eqP un|]; last first.
  by rewrite ltnS => un; rewrite -IH // ltnNge un addn0.
rewrite un ltnSn (eq_bigr (fun=> 1%N)) => [|k _]; last by rewrite ltnW // ltnS.
by rewrite sum1_card card_ord addn1.
Qed.

Lemma text_after p u t : text (N := field_numbers R) p u t = text (after p u) [::] t.
Proof.
rewrite -[u in LHS]cats0; elim: t [::] => [|b t IH] z //=.
by rewrite -IH rcons_cat.
Qed.
Lemma text_cat (p : seq T -> T -> R) z t s : text (N := field_numbers R) p z (t ++ s) =
  text (N := field_numbers R) p z t * text (N := field_numbers R) p (z ++ t) s.
Proof.
elim: t z => [|b t IH] z /=; first by rewrite mul1r cats0.
by rewrite IH cat_rcons mulrA.
Qed.
Lemma begins_after_cat (p : seq T -> T -> R) t u v :
  begins_after (N := field_numbers R) p t (u ++ v) =
  if prefix t u then 1 else
  if prefix u t then begins_after (N := field_numbers R) p (drop (size u) t) v else 0.
Proof.
rewrite /begins_after; elim: u t => [|a u IH] [|b t]; rewrite ?prefix0s ?drop0 ?cat_cons //=.
by rewrite [b == a]eq_sym; case: (a == b); rewrite //= IH.
Qed.
End Texts.
End General.

(* ------------------------------------------------------------------------------ one iteration *)
Section OneIteration.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Local Notation law := (law (field_numbers R)).
Local Notation text := (@text (field_numbers R) T).
Local Notation path := (@path (field_numbers R) T vocabulary q).
Local Notation draw := (@draw (field_numbers R) T vocabulary).
Local Notation ratio_after := (@ratio_after (field_numbers R) T p q).
Local Notation pass_probability := (@pass_probability (field_numbers R) T vocabulary p q).
Local Notation longest := (@longest (field_numbers R) T vocabulary p q).
Local Notation keep := (@keep (field_numbers R) T vocabulary p q).
Local Notation uncovered := (@uncovered (field_numbers R) T p q).
Local Notation modified := (@modified (field_numbers R) T vocabulary p q).
Local Notation verify := (@verify (field_numbers R) T vocabulary p q).
Local Notation greedy_block := (@greedy_block (field_numbers R) T vocabulary p q).
Local Notation excess := (@excess (field_numbers R) T).
Implicit Types (w : R) (z x t u : seq T).

Let p0 z a : 0 <= p z a. Proof. by case: (p_model z). Qed.
Let q0 z a : 0 <= q z a. Proof. by case: (q_model z). Qed.
Let p1 z : \sum_a p z a = 1. Proof. by case: (p_model z). Qed.
Let q1 z : \sum_a q z a = 1. Proof. by case: (q_model z). Qed.

Lemma uncoveredE t : uncovered t = Num.max (text p [::] t - text q [::] t) 0.
Proof. exact: positive_partE. Qed.
Lemma uncovered_ge0 t : 0 <= uncovered t.
Proof. by rewrite uncoveredE le_maxr lexx orbT. Qed.

Definition owed_after z := \sum_a uncovered (rcons z a).
Lemma owed_after_ge0 z : 0 <= owed_after z.
Proof. by apply: sumr_ge0 => a _; apply: uncovered_ge0. Qed.

(* The modified target is a model, and gives every text its share of what is owed. *)
Lemma modified_model n : is_model (modified n).
Proof.
move=> z; rewrite /modified; case: ifP => // _; rewrite (totalE complete) /= -/(owed_after z).
case: lerP => // owed; split=> [a|]; rewrite /normalised (totalE complete) /= -/(owed_after z).
  by rewrite divr_ge0 ?uncovered_ge0 ?owed_after_ge0.
by rewrite -mulr_suml divff ?gt_eqF.
Qed.
Lemma modified_owed n z a : (size z < n)%N ->
  owed_after z * modified n z a = uncovered (rcons z a).
Proof.
move=> zn; rewrite /modified zn (totalE complete) /= -/(owed_after z).
have owed0 := owed_after_ge0 z; case: lerP => [le0|gt0].
  have /eqP : owed_after z = 0 by apply/eqP; rewrite eq_le le0 owed0.
  rewrite psumr_eq0 => [/allP/(_ a)|b _]; last exact: uncovered_ge0.
  rewrite mem_index_enum => /(_ isT)/eqP ->.
  by have /eqP -> : owed_after z == 0; rewrite ?mul0r // eq_le le0 owed0.
by rewrite /normalised (totalE complete) /= -/(owed_after z) mulrCA divff ?mulr1 ?gt_eqF.
Qed.
Lemma modified_after n z : (n <= size z)%N -> modified n z = p z.
Proof. by move=> nz; rewrite /modified ltnNge nz. Qed.

(* What the target and the draft have in excess of each other, after z of ratio w. *)
Definition more z w := \sum_a Num.max (w * p z a - q z a) 0.
Definition less z w := \sum_a Num.max (q z a - w * p z a) 0.
Lemma total_more z w : total vocabulary (excess (p z) (q z) w) = more z w.
Proof. by rewrite (totalE complete); apply: eq_bigr => a _; exact: positive_partE. Qed.
Lemma more_less z w : more z w + (1 - w) = less z w.
Proof.
have -> : 1 - w = \sum_a (q z a - w * p z a) by rewrite sumrB q1 -mulr_sumr p1 mulr1.
rewrite /more -big_split; apply: eq_bigr => a _ /=.
by rewrite max_flip.
Qed.
Lemma more_ge0 z w : 0 <= more z w.
Proof. by apply: sumr_ge0 => a _; rewrite le_maxr lexx orbT. Qed.
Lemma less_ge0 z w : 0 <= less z w.
Proof. by apply: sumr_ge0 => a _; rewrite le_maxr lexx orbT. Qed.

Lemma pass_probability01 z w : 0 <= pass_probability z w <= 1.
Proof.
rewrite /pass_probability total_more /= more_less /greatest /ratio_or_one /=.
have m0 := more_ge0 z w; case: (lerP (more z w) (less z w)) => le.
  case: (lerP (less z w) 0) => [_|pos]; first by rewrite ler01 lexx.
  by rewrite divr_ge0 ?less_ge0 // ler_pdivr_mulr // mul1r.
case: (lerP (more z w) 0) => [_|pos]; first by rewrite ler01 lexx.
by rewrite divff ?gt_eqF // ler01 lexx.
Qed.
Lemma failed z w : less z w * (1 - pass_probability z w) = Num.max (1 - w) 0.
Proof.
have ml := more_less z w; have m0 := more_ge0 z w; have l0 := less_ge0 z w.
have -> : 1 - w = less z w - more z w by rewrite -ml [RHS]addrC addKr.
rewrite /pass_probability total_more /= ml /greatest /ratio_or_one /=.
case: (lerP (more z w) (less z w)) => le.
  have /max_idPl -> : 0 <= less z w - more z w by rewrite subr_ge0.
  case: (lerP (less z w) 0) => [le0|pos]; last by rewrite mulrBr mulr1 mulrCA divff ?mulr1 ?gt_eqF.
  have -> : less z w = 0 by apply/eqP; rewrite eq_le le0.
  have -> : more z w = 0 by apply/eqP; rewrite eq_le m0 (le_trans le).
  by rewrite subrr mul0r.
have /max_idPr -> : less z w - more z w <= 0 by rewrite subr_le0 ltW.
by case: (lerP (more z w) 0) => [_|pos]; rewrite ?divff ?gt_eqF // subrr mulr0.
Qed.

Lemma ratio_after_ge0 z w a : 0 <= w -> 0 <= ratio_after z w a.
Proof. by move=> w0; rewrite /ratio_after /= divr_ge0 // mulr_ge0. Qed.
(* What target and draft share of za, as a share of what they have of z. *)
Lemma shared_below z w a (f g : R) : 0 <= w -> 0 <= f -> 0 <= g ->
  q z a * Num.min f (ratio_after z w a * g) = Num.min (q z a * f) (w * (p z a * g)).
Proof.
move=> w0 f0 g0; have [q_zero|q_pos] := eqVneq (q z a) 0.
  by rewrite q_zero !mul0r; symmetry; apply/min_idPl; rewrite !mulr_ge0.
rewrite minr_pmulr //; congr (Num.min _ _).
rewrite /ratio_after /= mulrC mulrAC.
by rewrite divfK // mulrA.
Qed.

Lemma law_longest rest z w : 0 <= w -> is_law (longest rest z w).
Proof.
elim: rest z w => [|a rest IH] z w w0 /=.
  apply: law_bind => [|passes]; last exact: law_ret.
  by apply: law_coin; rewrite leastE le_minr ler01 w0 le_minl lexx.
apply: law_bind => [|[kept|]]; [by apply: IH; apply: ratio_after_ge0|exact: law_ret|].
apply: law_bind => [|passes]; last exact: law_ret.
by apply: law_coin; apply: pass_probability01.
Qed.
Lemma law_keep x : is_law (keep x).
Proof.
case: x => [|a rest] /=; first exact: law_ret.
apply: law_bind => [|later]; last exact: law_ret.
by apply: law_longest; apply: ratio_after_ge0; rewrite /= ler01.
Qed.

(* What is kept below a prefix z of ratio w, with n tokens to come. *)
Let below n z w : law (option (seq T)) := rest <- path n z ;; longest rest z w.
Let starts x (kept : option (seq T)) : bool := if kept is Some u then prefix x u else false.
Let missing (kept : option (seq T)) : bool := if kept is None then true else false.

Let law_below n z w : 0 <= w -> is_law (below n z w).
Proof. by move=> w0; apply: law_bind => [|rest]; [exact: law_path|exact: law_longest]. Qed.

Let missing_mass n z w : 0 <= w -> probability missing (below n z w) = Num.max (1 - w) 0.
Proof.
elim: n z w => [|n IH] z w w0.
  rewrite /probability expected_bind expected_ret expected_bind expected_coin !expected_ret.
  rewrite mulr0 add0r mulr1 leastE /Order.min /Order.max subr_lt0.
  by case: ltrP => //; rewrite subrr.
rewrite -(failed z w) /probability [LHS]expected_bind [LHS]expected_bind.
rewrite [LHS](expected_draw_row complete) //.
rewrite mulr_suml; apply: eq_bigr => a _; rewrite expected_bind.
transitivity (q z a * (probability missing (below n (rcons z a) (ratio_after z w a))
   * (1 - pass_probability z w))).
  congr (_ * _); rewrite /below /probability expected_bind -expected_mulr.
  apply: eq_expected => rest; rewrite expected_ret /= expected_bind -expected_mulr.
  apply: eq_expected => -[kept|].
    by rewrite expected_ret /= mul0r.
  by rewrite expected_bind expected_coin !expected_ret /= mulr0 add0r mulr1 mul1r.
rewrite IH ?ratio_after_ge0 // mulrA; congr (_ * _).
have [q_zero|q_pos] := eqVneq (q z a) 0.
  rewrite q_zero mul0r; symmetry; apply/max_idPr.
  by rewrite sub0r oppr_le0 mulr_ge0.
by rewrite maxr_pmulr // mulr0 mulrBr mulr1 /ratio_after /= mulrCA divff // mulr1.
Qed.

Let starts_mass n x z w : 0 <= w -> probability (starts x) (below n z w) =
  if (size x <= n)%N then Num.min (text q z x) (w * text p z x) else 0.
Proof.
have starts_nil k u v : 0 <= v ->
    probability (starts [::]) (below k u v) = Num.min (text q u [::]) (v * text p u [::]).
  move=> v0; have [_ total1] := law_below k u v0.
  transitivity (expected (fun=> 1) (below k u v) - probability missing (below k u v)).
    by rewrite -expected_sub; apply: eq_expected => -[s|] /=; rewrite ?prefix0s ?subr0 ?subrr.
  by rewrite total1 missing_mass //= mulr1 one_minus_max.
elim: n x z w => [|n IH] [|a x] z w w0; rewrite ?starts_nil //.
  rewrite /probability expected_bind expected_ret expected_bind expected_coin !expected_ret /=.
  by rewrite !mulr0 addr0.
rewrite /probability [LHS]expected_bind [LHS]expected_bind [LHS](expected_draw_row complete) //.
transitivity (\sum_b q z b * probability (starts x) (below n (rcons z b) (ratio_after z w b))
    * (b == a)%:R).
  apply: eq_bigr => b _; rewrite -mulrA expected_bind; congr (_ * _).
  rewrite /below /probability expected_bind -expected_mulr.
  apply: eq_expected => rest; rewrite expected_ret /= expected_bind -expected_mulr.
  apply: eq_expected => -[kept|].
    by rewrite expected_ret /= [b == a]eq_sym; case: (a == b); rewrite /= ?mulr1 ?mulr0.
  by rewrite expected_bind expected_coin !expected_ret /= !mulr0 add0r mul0r.
rewrite (sum_at (fun b => q z b * _)) IH ?ratio_after_ge0 //= ltnS.
case: leqP => _; last by rewrite mulr0.
by rewrite shared_below ?text_ge0.
Qed.

(* The probability that target and draft share a prefix, if the draft is long enough. *)
Definition shared (n : nat) x :=
  if (size x <= n)%N then Num.min (text p [::] x) (text q [::] x) else 0.

Lemma kept_starts n x :
  probability (prefix x) (drafted <- path n [::] ;; keep drafted) = shared n x.
Proof.
case: x => [|a x].
  have [_ total1] : is_law (drafted <- path n [::] ;; keep drafted).
    by apply: law_bind => [|drafted]; [exact: law_path|exact: law_keep].
  by rewrite /shared /= minxx -[RHS]total1; apply: eq_expected => u; rewrite prefix0s.
rewrite /shared /probability; case: n => [|n].
  by rewrite expected_bind !expected_ret.
rewrite [LHS]expected_bind [LHS]expected_bind [LHS](expected_draw_row complete) //.
transitivity (\sum_b q [::] b * probability (starts x)
    (below n [:: b] (ratio_after [::] 1 b)) * (b == a)%:R).
  apply: eq_bigr => b _; rewrite -mulrA expected_bind; congr (_ * _).
  rewrite /below /probability expected_bind -expected_mulr.
  apply: eq_expected => rest; rewrite expected_ret /= expected_bind -expected_mulr.
  apply: eq_expected => -[kept|]; rewrite expected_ret /=; last by rewrite mul0r.
  by rewrite [b == a]eq_sym; case: (a == b); rewrite /= ?mulr1 ?mulr0.
have w0 : 0 <= ratio_after [::] 1 a by rewrite ratio_after_ge0 /= ?ler01.
rewrite (sum_at (fun b => q [::] b * _)) starts_mass //= ltnS.
case: leqP => _; last by rewrite mulr0.
by rewrite shared_below ?text_ge0 ?ler01 // mul1r minC.
Qed.

Lemma path_law n x z :
  probability (pred1 x) (path n z) = if size x == n then text q z x else 0.
Proof.
elim: n x z => [|n IH] x z.
  by rewrite /probability expected_ret /= eq_sym -size_eq0; case: x.
rewrite /probability [LHS]expected_bind [LHS](expected_draw_row complete) //.
case: x => [|a x].
  rewrite big1 // => b _; rewrite expected_bind.
  rewrite (@eq_expected _ _ _ (fun=> 0)) ?expected_zero ?mulr0 // => u.
  by rewrite expected_ret.
transitivity (\sum_b q z b * probability (pred1 x) (path n (rcons z b)) * (b == a)%:R).
  apply: eq_bigr => b _; rewrite -mulrA expected_bind -expected_mulr; congr (_ * _).
  apply: eq_expected => u; rewrite expected_ret /= eqseq_cons.
  by case: (b == a); rewrite ?mulr1 ?mulr0.
by rewrite (sum_at (fun b => q z b * _)) IH /= eqSS; case: eqP; rewrite ?mulr0.
Qed.
Lemma path_starts n x : (size x <= n)%N ->
  probability (prefix x) (path n [::]) = text q [::] x.
Proof.
elim: n x [::] => [|n IH] x z.
  by case: x => // _; rewrite /probability expected_ret prefixs0.
case: x => [|a x] len.
  rewrite -[RHS](proj2 (law_path complete q_model n.+1 z)).
  by apply: eq_expected => u; rewrite prefix0s.
rewrite /probability [LHS]expected_bind [LHS](expected_draw_row complete) //.
transitivity (\sum_b q z b * probability (prefix x) (path n (rcons z b)) * (b == a)%:R).
  apply: eq_bigr => b _; rewrite -mulrA expected_bind -expected_mulr; congr (_ * _).
  apply: eq_expected => u; rewrite expected_ret /= [a == b]eq_sym.
  by case: (b == a); rewrite ?mulr1 ?mulr0.
by rewrite (sum_at (fun b => q z b * _)) IH.
Qed.

(* The law of (accepted, next), for a path selected by any means whose law is that of q. *)
Definition path_of n (selected : law (seq T)) := is_law selected /\ forall x,
  probability (pred1 x) selected = if size x == n then text q [::] x else 0.

Lemma drafted_path_of n : path_of n (path n [::]).
Proof. by split=> [|x]; [exact: law_path|exact: path_law]. Qed.
Lemma expected_selected n selected (f : seq T -> R) : path_of n selected ->
  expected f selected = expected f (path n [::]).
Proof.
by move=> [_ same]; apply: same_law_expected => x; rewrite same path_law.
Qed.

(* After any selection of a path with the law of q the outcome of greedy block verification is a
   law. *)
Theorem greedy_block_law n selected : path_of n selected -> is_law (greedy_block n selected).
Proof.
move=> [sel_law _]; apply: law_bind => // x; apply: law_bind => [|u]; first exact: law_keep.
by apply: law_bind => [|y]; [apply: law_draw_row => //; exact: modified_model|exact: law_ret].
Qed.

Lemma accepted_kept n selected (f : seq T -> R) : path_of n selected ->
  expected (fun e => f e.1) (greedy_block n selected) =
  expected f (drafted <- path n [::] ;; keep drafted).
Proof.
move=> sel; rewrite [LHS]expected_bind (expected_selected _ sel) [RHS]expected_bind.
apply: eq_expected => x; rewrite expected_bind; apply: eq_expected => u.
rewrite expected_bind (expected_draw_row complete); last exact: modified_model.
have [_ m1] := modified_model n u.
by rewrite -[RHS]mul1r -m1 mulr_suml; apply: eq_bigr => y _; rewrite expected_ret.
Qed.

(* Greedy block verification accepts a text x of at most n tokens with min(p(x), q(x)), and no
   longer one. *)
Theorem accepts_greedy_block n selected x : path_of n selected ->
  accepts x (greedy_block n selected) = shared n x.
Proof.
by move=> sel; rewrite -kept_starts; exact: (accepted_kept (fun u => (prefix x u)%:R) sel).
Qed.

(* The probability that what is accepted is x: it starts with x and goes no further. *)
Definition shared_exactly n x := shared n x - \sum_b shared n (rcons x b).

(* The probability that greedy block verification accepts x alone and that a is next is
   (s(x) - sum of s(xb) over all b) M(a|x), where s(x) is min(p(x), q(x)) for at most n tokens and 0
   for more, and M is the modified target. *)
Theorem ends_greedy_block n selected x a : path_of n selected ->
  ends x a (greedy_block n selected) = shared_exactly n x * modified n x a.
Proof.
move=> sel; transitivity (expected (fun e => (e.1 == x)%:R) (greedy_block n selected)
    * modified n x a).
  rewrite /ends /probability [LHS]expected_bind [X in _ = X * _]expected_bind -expected_mulr.
  apply: eq_expected => drafted; rewrite [LHS]expected_bind [X in _ = X * _]expected_bind.
  rewrite -expected_mulr; apply: eq_expected => u.
  rewrite [LHS]expected_bind [X in _ = X * _]expected_bind.
  rewrite !(expected_draw_row complete); try exact: modified_model.
  under eq_bigr => y _ do rewrite expected_ret xpair_eqE.
  under [X in _ = X * _]eq_bigr => y _ do rewrite expected_ret /=.
  rewrite -mulr_suml (proj2 (modified_model n u)) mul1r.
  have [->|ne] := eqVneq u x; last by rewrite mul0r big1 // => y _; rewrite mulr0.
  by rewrite mul1r -[RHS](sum_at (modified n x)).
congr (_ * _); rewrite (accepted_kept (fun u => (u == x)%:R) sel) /shared_exactly -kept_starts.
rewrite (eq_expected _ (prefix_split _ x)) expected_sub expected_sum; congr (_ - _).
by apply: eq_bigr => b _; rewrite -kept_starts.
Qed.

(* ----------------------------------------------------------------- lossless, over one iteration *)
Lemma shared_owed n x a : (size x < n)%N ->
  shared n (rcons x a) + uncovered (rcons x a) = text p [::] (rcons x a).
Proof.
move=> xn; rewrite /shared size_rcons xn uncoveredE minC.
exact: min_plus_excess.
Qed.
Lemma shared_rest n x : (size x < n)%N ->
  text p [::] x - \sum_b shared n (rcons x b) = owed_after x.
Proof.
move=> xn; apply/eqP; rewrite subr_eq addrC /owed_after -big_split /=.
rewrite (eq_bigr (fun b => text p [::] x * p x b)) => [|b _].
  by rewrite -mulr_sumr p1 mulr1.
by rewrite shared_owed // text_rcons.
Qed.

(* The same without a sum over what else could have been accepted: the smaller one of what target
   and draft have in excess of each other, one token after x. *)
Lemma shared_exactlyE n x : (size x < n)%N -> shared_exactly n x = Num.min (owed_after x)
  (\sum_b Num.max (text q [::] (rcons x b) - text p [::] (rcons x b)) 0).
Proof.
move=> xn; set spare := \sum_b _.
have owed : text p [::] x - \sum_b shared n (rcons x b) = owed_after x by exact: shared_rest.
have spared : text q [::] x - \sum_b shared n (rcons x b) = spare.
  apply/eqP; rewrite subr_eq addrC /spare -big_split /=.
  rewrite (eq_bigr (fun b => text q [::] x * q x b)) => [|b _].
    by rewrite -mulr_sumr q1 mulr1.
  by rewrite /shared size_rcons xn min_plus_excess text_rcons.
by rewrite /shared_exactly {1}/shared (ltnW xn) addr_minl owed spared.
Qed.

(* One iteration of greedy block verification, continued by the modified target, begins with t with
   probability p(t), for every t. *)
Theorem greedy_block_lossless n selected t : path_of n selected ->
  writes (modified n) t (greedy_block n selected) = text p [::] t.
Proof.
move=> sel; elim/last_ind: t => [|x a IH].
  rewrite -[RHS](proj2 (greedy_block_law sel)); apply: eq_expected => e; exact: begins_nil.
have -> : writes (modified n) (rcons x a) (greedy_block n selected) =
    shared n (rcons x a) + (text p [::] x - \sum_b shared n (rcons x b)) * modified n x a.
  transitivity (accepts (rcons x a) (greedy_block n selected) + ends x a (greedy_block n selected)
    + (writes (modified n) x (greedy_block n selected) - accepts x (greedy_block n selected))
      * modified n x a).
    rewrite /writes /accepts /ends /probability -expected_sub -expected_mulr -!expected_add.
    by apply: eq_expected => e; rewrite begins_rcons.
  rewrite !accepts_greedy_block // ends_greedy_block // IH -addrA -mulrDl /shared_exactly.
  by congr (_ + _ * _); rewrite addrC addrA subrK.
case: (ltnP (size x) n) => [xn|nx].
  by rewrite shared_rest // modified_owed // shared_owed.
have none b : shared n (rcons x b) = 0 by rewrite /shared size_rcons ltnNge nx.
by rewrite none big1 // subr0 add0r modified_after // text_rcons.
Qed.

(* ------------------------------------------------------------------------ the accepted length *)
Let longest_end z w : longest [::] z w =
  (passes <- coin (least (N := field_numbers R) 1 w : field_numbers R) ;;
   ret _ (if passes then Some [::] else None)).
Proof. by []. Qed.
Let longest_next a rest z w : longest (a :: rest) z w =
  (later <- longest rest (rcons z a) (ratio_after z w a) ;;
   if later is Some kept then ret _ (Some (a :: kept)) else
   passes <- coin (pass_probability z w : field_numbers R) ;;
   ret _ (if passes then Some [::] else None)).
Proof. by []. Qed.
Let keep_next a rest : keep (a :: rest) =
  (later <- longest rest [:: a] (ratio_after [::] 1 a) ;;
   ret _ (if later is Some kept then a :: kept else [::])).
Proof. by []. Qed.

Lemma longest_drafted rest z w o :
  List.In o (longest rest z w) -> if o.1 is Some u then prefix u rest else true.
Proof.
elim: rest z w o => [|a rest IH] z w o.
  by rewrite longest_end => /in_bind[b [c [_ [<-|//] ->]]]; case: b.1.
rewrite longest_next => /in_bind[later [b [/IH later_in b_in ->]]].
case: later.1 later_in b_in => [u ok|_]; first by case=> // <- /=; rewrite eqxx.
by case/in_bind=> c [d [_ [<-|//] ->]]; case: c.1.
Qed.
Lemma keep_drafted x o : List.In o (keep x) -> prefix o.1 x.
Proof.
case: x => [|a rest]; first by case=> // <-.
rewrite keep_next => /in_bind[later [b [/longest_drafted later_in [<-|//] ->]]].
by case: later.1 later_in => [u ok|_] //=; rewrite eqxx.
Qed.
(* Only drafted tokens are accepted. *)
Lemma verify_drafted n x o : List.In o (verify n x) -> prefix o.1.1 x.
Proof.
rewrite /verify => /in_bind[u [b [/keep_drafted u_in]]].
by case/in_bind=> y [c [_ [<-|//] ->]] ->.
Qed.

Definition shared_length n := \sum_(k < n) \sum_(x : k.+1.-tuple T)
  Num.min (text p [::] x) (text q [::] x).

(* The expected number of tokens that greedy block verification accepts is the sum of
   min(p(x), q(x)) over all texts x of 1 to n tokens. *)
Theorem expected_length n selected : path_of n selected ->
  expected (fun e => (size e.1)%:R) (greedy_block n selected) = shared_length n.
Proof.
move=> sel; rewrite (accepted_kept (fun u => (size u)%:R) sel).
transitivity (expected (fun u => \sum_(k < n) \sum_(x : k.+1.-tuple T) (prefix x u)%:R)
    (drafted <- path n [::] ;; keep drafted)).
  apply: eq_expected_in => o /in_bind[x [b [/size_path x_size /keep_drafted kept ->]]].
  by apply: size_by_prefixes; rewrite -x_size size_prefix.
rewrite expected_sum; apply: eq_bigr => k _; rewrite expected_sum; apply: eq_bigr => x _.
by rewrite -[LHS]/(probability _ _) kept_starts /shared size_tuple ltn_ord.
Qed.
End OneIteration.

(* ------------------------------------------------------------------------------- any verifier *)
Section AnyVerifier.
Variables (R : realFieldType) (T : finType).
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Local Notation iteration := (iteration (field_numbers R) T).
Local Notation text := (@text (field_numbers R) T).
Local Notation begins := (@begins (field_numbers R) T).
Local Notation begins_after := (@begins_after (field_numbers R) T).
Local Notation after := (@after (field_numbers R) T).
Local Notation decoded := (@decoded (field_numbers R) T).
Implicit Types (p q M : model) (x t u v z written : seq T) (m : iteration).

(* The text that an iteration begins, continued by whatever target it leaves, has the law of p at
   every horizon. *)
Definition lossless_leaving p m :=
  forall t, expected (fun o => begins o.2 t o.1) m = text p [::] t.

Lemma lossless_leaving_one M p (m : law (emission T)) :
  lossless_leaving p (e <- m ;; ret _ (e, M)) <-> forall t, writes M t m = text p [::] t.
Proof.
have same t : expected (fun o => begins o.2 t o.1) (e <- m ;; ret _ (e, M)) = writes M t m.
  by rewrite expected_bind; apply: eq_expected => e; rewrite expected_ret.
by split=> ok t; rewrite -ok same.
Qed.

(* Emissions that leave one and the same model M are lossless if and only if they are balanced,
   where what M adds is counted: P(xa is accepted) + P(x alone is accepted and a is next) +
   (p(x) - P(x is accepted)) M(a|x) = p(xa), for all x and a. *)
Theorem lossless_leaving_balanced M p (m : law (emission T)) : is_law m ->
  (forall t, writes M t m = text p [::] t) <->
  (forall x a, accepts (rcons x a) m + ends x a m + (text p [::] x - accepts x m) * M x a
     = text p [::] (rcons x a)).
Proof.
move=> [_ m1]; have step x a : writes M (rcons x a) m =
    accepts (rcons x a) m + ends x a m + (writes M x m - accepts x m) * M x a.
  rewrite /writes /accepts /ends /probability -expected_sub -expected_mulr -!expected_add.
  by apply: eq_expected => e; rewrite begins_rcons.
split=> [ok x a|ok t]; first by rewrite -!ok step.
elim/last_ind: t => [|x a IH]; last by rewrite step IH ok.
by rewrite -[RHS]m1; apply: eq_expected => e; rewrite begins_nil.
Qed.

Lemma after_model p u : is_model p -> is_model (after p u).
Proof. by move=> p_ok z; apply: p_ok. Qed.

Lemma beginsE M t (e : emission T) :
  begins M t e = begins_after (after M (tokens e)) t (tokens e).
Proof. by rewrite /begins /begins_after text_after. Qed.

(* If the target that is left is replaced by any procedure whose text has its law up to h tokens,
   then the whole text begins with t with probability p(t), for every t of at most h + 1 tokens. *)
Theorem continued p m (k : emission T * model -> law (seq T)) (h : nat) t : lossless_leaving p m ->
  (forall o, List.In o m -> forall s, (size s <= h)%N ->
     probability (prefix s) (k o.1) = text o.1.2 (tokens o.1.1) s) ->
  (size t <= h.+1)%N ->
  probability (prefix t) (o <- m ;; rest <- k o ;; ret _ (tokens o.1 ++ rest)) = text p [::] t.
Proof.
move=> ok k_ok th; rewrite -ok /probability expected_bind; apply: eq_expected_in => o o_in.
rewrite expected_bind /begins; case: ifP => [in_tokens|not_in].
  rewrite -[RHS](k_ok o o_in [::]) //; apply: eq_expected => v.
  by rewrite expected_ret prefix_catE in_tokens prefix0s.
case: ifP => [beyond|off]; last first.
  rewrite -[RHS](expected_zero (k o.1)); apply: eq_expected => v.
  by rewrite expected_ret prefix_catE not_in off.
rewrite -k_ok //; last first.
  by rewrite size_drop /tokens size_rcons leq_subLR addSn addnC -addSn (leq_trans th) // leq_addr.
by apply: eq_expected => v; rewrite expected_ret prefix_catE not_in beyond.
Qed.

(* Repeated iterations of any verifiers that are lossless for the target that they are given. *)
Section Repeated.
Variable iterate : seq T -> model -> iteration.
Hypothesis iterate_law : forall written p, is_model p -> is_law (iterate written p).
Hypothesis iterate_models : forall written p, is_model p ->
  forall o, List.In o (iterate written p) -> is_model o.1.2.
Hypothesis iterate_lossless : forall written p, is_model p ->
  lossless_leaving p (iterate written p).

Lemma decoded_total count written p : is_model p ->
  expected (fun=> 1) (decoded iterate count written p) = 1.
Proof.
elim: count written p => [|count IH] written p p_ok; first by rewrite expected_ret.
rewrite [LHS]expected_bind -[RHS](proj2 (iterate_law written p_ok)).
apply: eq_expected_in => o o_in; rewrite expected_bind.
rewrite -[RHS](IH (written ++ tokens o.1.1) (after o.1.2 (tokens o.1.1))).
  by apply: eq_expected => rest; rewrite expected_ret.
exact: after_model (iterate_models p_ok o_in).
Qed.

Lemma decoded_law count written p : is_model p -> is_law (decoded iterate count written p).
Proof.
elim: count written p => [|count IH] written p p_ok; first exact: law_ret.
apply: law_bind_in => [|o o_in]; first exact: iterate_law.
apply: law_bind => [|rest]; last exact: law_ret.
by apply: IH; exact: after_model (iterate_models p_ok o_in).
Qed.

(* Any number of lossless iterations, each against the target that the last one left, is lossless:
   what they write, continued by the target that is left, begins with t with probability p(t). *)
Theorem decoded_lossless count written p t : is_model p ->
  expected (fun o => begins_after o.2 t o.1) (decoded iterate count written p) = text p [::] t.
Proof.
elim: count written p t => [|count IH] written p t p_ok.
  by rewrite expected_ret /begins_after; case: t.
rewrite -(iterate_lossless written p_ok) [LHS]expected_bind; apply: eq_expected_in => o o_in.
have left_ok := after_model (tokens o.1.1) (iterate_models p_ok o_in).
rewrite beginsE expected_bind.
transitivity (expected (fun rest => if prefix t (tokens o.1.1) then 1 else
    if prefix (tokens o.1.1) t
    then begins_after rest.2 (drop (size (tokens o.1.1)) t) rest.1 else 0)
  (decoded iterate count (written ++ tokens o.1.1)
     (after o.1.2 (tokens o.1.1)))).
  by apply: eq_expected => rest; rewrite expected_ret begins_after_cat.
rewrite -[X in begins_after _ _ X]cats0 begins_after_cat; case: ifP => _.
  exact: decoded_total.
case: ifP => _; last exact: expected_zero.
by rewrite IH // /begins_after; case: (drop _ _).
Qed.

(* The first tokens that lossless iterations write, as many as there are iterations, begin with t
   with probability p(t). *)
Theorem decoded_starts count written p t : is_model p -> (size t <= count)%N ->
  probability (fun o => prefix t o.1) (decoded iterate count written p) = text p [::] t.
Proof.
elim: count written p t => [|count IH] written p t p_ok len.
  by case: t len => // _; rewrite /probability expected_ret.
rewrite -(iterate_lossless written p_ok) /probability [LHS]expected_bind.
apply: eq_expected_in => o o_in.
have left_ok := after_model (tokens o.1.1) (iterate_models p_ok o_in).
rewrite expected_bind /begins; case: ifP => [in_tokens|not_in].
  rewrite -[RHS](decoded_total count (written ++ tokens o.1.1) left_ok).
  by apply: eq_expected => rest; rewrite expected_ret prefix_catE in_tokens.
case: ifP => [beyond|off].
  rewrite text_after -(IH (written ++ tokens o.1.1)) //.
    by apply: eq_expected => rest; rewrite expected_ret prefix_catE not_in beyond.
  by rewrite size_drop /tokens size_rcons leq_subLR addSn addnC -addSn (leq_trans len) // leq_addr.
rewrite -[RHS](expected_zero (decoded iterate count (written ++ tokens o.1.1)
  (after o.1.2 (tokens o.1.1)))).
by apply: eq_expected => rest; rewrite expected_ret prefix_catE not_in off.
Qed.
End Repeated.

(* Iterations that leave the target as it is. *)
Section Stateless.
Variable one : seq T -> model -> law (emission T).
Hypothesis one_law : forall written p, is_model p -> is_law (one written p).
Hypothesis one_lossless : forall written p, is_model p -> lossless p (one written p).
Definition stateless_iteration written p : iteration := e <- one written p ;; ret _ (e, p).

Let stateless_law written p : is_model p -> is_law (stateless_iteration written p).
Proof. by move=> p_ok; apply: law_bind => [|e]; [exact: one_law|exact: law_ret]. Qed.
Let stateless_models written p : is_model p ->
  forall o, List.In o (stateless_iteration written p) -> is_model o.1.2.
Proof. by move=> p_ok o; rewrite /stateless_iteration => /in_bind[e [b [_ [<-|//] ->]]]. Qed.
Let stateless_leaving written p : is_model p ->
  lossless_leaving p (stateless_iteration written p).
Proof. by move=> p_ok; apply/lossless_leaving_one; exact: one_lossless. Qed.

(* If lossless iterations that leave the target as it is are written one after the other, then what
   any number of them write, continued by the target, begins with t with probability p(t). *)
Theorem stateless_lossless count written p t : is_model p ->
  expected (fun o => begins_after o.2 t o.1) (decoded stateless_iteration count written p)
  = text p [::] t.
Proof. exact: decoded_lossless. Qed.
(* If lossless iterations that leave the target as it is are written one after the other, then the
   first tokens, as many as there are iterations, have the target's law: they begin with t with
   probability p(t). *)
Theorem stateless_starts count written p t : is_model p -> (size t <= count)%N ->
  probability (fun o => prefix t o.1) (decoded stateless_iteration count written p)
  = text p [::] t.
Proof. exact: decoded_starts. Qed.
End Stateless.
End AnyVerifier.

(* ----------------------------------------------------------------------- repeated iterations *)
Section Repeatedly.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation model := (seq T -> T -> R).
Local Notation text := (@text (field_numbers R) T).
Local Notation decoded := (@decoded (field_numbers R) T).
Variables (length : seq T -> model -> nat) (q : seq T -> model -> model).
Variable selected : seq T -> model -> law (field_numbers R) (seq T).
Local Notation iterate := (@greedy_iteration (field_numbers R) T vocabulary length selected q).

(* However the path is selected, its law is that of a model, given the text and the target. *)
Hypothesis q_model : forall written p, is_model p -> is_model (q written p).
Hypothesis selected_path : forall written p, is_model p ->
  path_of (q written p) (length written p) (selected written p).

Let iterate_law written p : is_model p -> is_law (iterate written p).
Proof.
move=> p_ok; apply: law_bind => [|e]; last exact: law_ret.
by apply: greedy_block_law => //; [exact: q_model|exact: selected_path].
Qed.
Let iterate_models written p : is_model p ->
  forall o, List.In o (iterate written p) -> is_model o.1.2.
Proof.
move=> p_ok o; rewrite /greedy_iteration => /in_bind[e [b [_ [<-|//] ->]]] /=.
by apply: modified_model.
Qed.
Let iterate_lossless written p : is_model p -> lossless_leaving p (iterate written p).
Proof.
move=> p_ok; apply/lossless_leaving_one => t.
by apply: greedy_block_lossless => //; [exact: q_model|exact: selected_path].
Qed.

(* Any number of iterations of greedy block verification gives a law. *)
Theorem greedy_block_decoded_law count written p : is_model p ->
  is_law (decoded iterate count written p).
Proof. exact: decoded_law. Qed.

(* Any number of iterations of greedy block verification, each against the target that the last one
   left, is lossless: what they write, continued by the target that is left, begins with t with
   probability p(t). *)
Theorem greedy_block_decoded_lossless count written p t : is_model p ->
  expected (fun o => begins_after o.2 t o.1) (decoded iterate count written p) = text p [::] t.
Proof. exact: decoded_lossless. Qed.

(* The first tokens that iterations of greedy block verification write, as many as there are
   iterations, begin with t with probability p(t). *)
Theorem greedy_block_decoded_starts count written p t : is_model p -> (size t <= count)%N ->
  probability (fun o => prefix t o.1) (decoded iterate count written p) = text p [::] t.
Proof. exact: decoded_starts. Qed.
End Repeatedly.

(* If every iteration drafts one path of n tokens from one draft, the first `count` tokens have the
   target's law. *)
Theorem drafted_decoded_starts (R : realFieldType) (T : finType) (vocabulary : seq T)
    (p draft : seq T -> T -> R) (n count : nat) (t : seq T) : perm_eq vocabulary (enum T) ->
  is_model p -> is_model draft -> (size t <= count)%N ->
  let draft_after written (_ : seq T -> T -> R) := after (N := field_numbers R) draft written in
  let drafted written target := path vocabulary (draft_after written target) n [::] in
  probability (fun o => prefix t o.1) (decoded
    (greedy_iteration vocabulary (fun _ _ => n) drafted draft_after) count [::] p) =
  text (N := field_numbers R) p [::] t.
Proof.
move=> complete p_ok draft_ok len draft_after drafted.
have after_ok written target : is_model (draft_after written target) by exact: after_model.
by apply: greedy_block_decoded_starts => // written target _; exact: drafted_path_of.
Qed.

(* --------------------------------------------------------------------------------- optimality *)
(* Any verifier of a path of law q, together with what it is told and knows besides: the path, the
   emission, and the target that is left, which may be any law of the text to come. *)
Section Optimality.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Local Notation text := (@text (field_numbers R) T).
Variables p q : model.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Variables (n : nat) (m : law (seq T * (emission T * model))).
Hypothesis m_law : is_law m.
Hypothesis m_path : path_of q n (o <- m ;; ret _ o.1).
Hypothesis m_drafted : forall o, possible m o -> prefix o.2.1.1 o.1.
Hypothesis m_models : forall o, possible m o -> is_model o.2.2.
Hypothesis m_lossless : lossless_leaving p (o <- m ;; ret _ o.2).

Let expected_path (f : seq T -> R) : expected (fun o => f o.1) m =
  expected f (path (N := field_numbers R) vocabulary q n [::]).
Proof.
rewrite -(expected_selected complete q_model f m_path) expected_bind.
by apply: eq_expected => o; rewrite expected_ret.
Qed.

(* No lossless verifier of one path of n tokens, whatever model it leaves, accepts a text x of at
   most n tokens with more than min(p(x), q(x)), and none accepts a longer text. *)
Theorem nothing_accepts_more x : probability (fun o => prefix x o.2.1.1) m <= shared p q n x.
Proof.
have [m0 _] := m_law.
have drafted_more : probability (fun o => prefix x o.2.1.1) m <=
    probability (fun o => prefix x o.1) m.
  apply: expected_mono_possible => // o /m_drafted/prefixP[s ->]; rewrite prefix_catE.
  by case: (prefix x _); rewrite ?ler01 ?lexx //= ler0n.
rewrite /shared; case: (leqP (size x) n) => [xn|nx]; last first.
  apply: le_trans drafted_more _; rewrite /probability (expected_path (fun u => (prefix x u)%:R)).
  rewrite (@eq_expected_in _ _ _ (fun=> 0)) ?expected_zero // => o /size_path o_size.
  by case: (boolP (prefix x o.1)) => // /size_prefix; rewrite o_size leqNgt nx.
rewrite le_minr; apply/andP; split; last first.
  apply: le_trans drafted_more _; rewrite /probability (expected_path (fun u => (prefix x u)%:R)).
  by rewrite -(path_starts complete q_model xn) lexx.
rewrite -(m_lossless x) expected_bind; apply: expected_mono_possible => // o o_can.
rewrite expected_ret /begins; case: (boolP (prefix x o.2.1.1)) => [in_accepted|_].
  by rewrite /tokens -cats1 prefix_catE in_accepted.
case: ifP => _; first exact: ler01.
by case: ifP => // _; apply: text_ge0; exact: m_models.
Qed.

(* No lossless verifier of one path of n tokens, whatever model it leaves, accepts more tokens on
   average than the sum of min(p(x), q(x)) over all texts x of 1 to n tokens. *)
Theorem nothing_accepts_longer :
  expected (fun o => (size o.2.1.1)%:R) m <= shared_length p q n.
Proof.
have [m0 _] := m_law.
pose off (u : seq T) : R := if size u == n then 0 else (size u)%:R.
apply: (@le_trans _ _ (expected (fun o => (\sum_(k < n) \sum_(x : k.+1.-tuple T)
    (prefix x o.2.1.1)%:R) + off o.1) m)).
  apply: expected_mono_possible => // o /m_drafted/size_prefix short; rewrite /off.
  case: eqP => [path_size|_]; first by rewrite addr0 -size_by_prefixes // -path_size.
  apply: ler_paddl; last by rewrite ler_nat.
  by apply: sumr_ge0 => k _; apply: sumr_ge0 => x _; rewrite ler0n.
rewrite expected_add (expected_path off) [X in _ + X](@eq_expected_in _ _ _ (fun=> 0)).
  rewrite expected_zero addr0 expected_sum; apply: ler_sum => k _.
  rewrite expected_sum; apply: ler_sum => x _.
  by have := nothing_accepts_more x; rewrite /shared size_tuple ltn_ord.
by move=> o /size_path o_size; rewrite /off o_size eqxx.
Qed.
End Optimality.

(* Greedy block verification is such a verifier, and reaches the bounds. *)
Section Reached.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Variables p q : model.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Variables (n : nat) (selected : law (seq T)).
Hypothesis selected_path : path_of q n selected.
Local Notation verify := (@verify (field_numbers R) T vocabulary p q).
Local Notation modified := (@modified (field_numbers R) T vocabulary p q).

Definition greedy_outcome : law (seq T * (emission T * model)) :=
  path <- selected ;; e <- verify n path ;; ret _ (path, (e, modified n)).

Let law_verify x : is_law (verify n x).
Proof.
apply: law_bind => [|u]; first exact: law_keep.
by apply: law_bind => [|y]; [apply: law_draw_row => //; exact: modified_model|exact: law_ret].
Qed.
Lemma greedy_outcome_law : is_law greedy_outcome.
Proof.
apply: law_bind => [|x]; first by case: selected_path.
by apply: law_bind => [|e]; [exact: law_verify|exact: law_ret].
Qed.
Lemma greedy_outcome_path : path_of q n (o <- greedy_outcome ;; ret _ o.1).
Proof.
split=> [|x]; first by apply: law_bind => [|o]; [exact: greedy_outcome_law|exact: law_ret].
rewrite -(proj2 selected_path x) /probability !expected_bind; apply: eq_expected => u.
rewrite expected_bind -[RHS]mul1r -(proj2 (law_verify u)) -expected_mulr.
by apply: eq_expected => e; rewrite !expected_ret mul1r.
Qed.
Lemma greedy_outcome_drafted o : List.In o greedy_outcome -> prefix o.1.2.1.1 o.1.1.
Proof.
rewrite /greedy_outcome => /in_bind[x [b [_ b_in ->]]].
by case/in_bind: b_in => e [c [/verify_drafted e_in [<-|//] ->]].
Qed.
Lemma greedy_outcome_models o : List.In o greedy_outcome -> is_model o.1.2.2.
Proof.
rewrite /greedy_outcome => /in_bind[x [b [_ b_in ->]]].
by case/in_bind: b_in => e [c [_ [<-|//] ->]]; apply: modified_model.
Qed.
Let expected_outcome (f : emission T * model -> R) : expected (fun o => f o.2) greedy_outcome =
  expected (fun e => f (e, modified n)) (greedy_block vocabulary p q n selected).
Proof.
rewrite !expected_bind; apply: eq_expected => x; rewrite expected_bind.
by apply: eq_expected => e; rewrite expected_ret.
Qed.
Lemma greedy_outcome_lossless : lossless_leaving p (o <- greedy_outcome ;; ret _ o.2).
Proof.
move=> t; rewrite -(greedy_block_lossless complete p_model q_model t selected_path) expected_bind.
transitivity (expected (fun o => begins (N := field_numbers R) o.2.2 t o.2.1) greedy_outcome).
  by apply: eq_expected => o; rewrite expected_ret.
exact: (expected_outcome (fun o => begins (N := field_numbers R) o.2 t o.1)).
Qed.
(* Greedy block verification is itself a lossless verifier of one path: its outcome, with the path
   and the modified target, is a law; the path has the law of q; what it accepts was drafted; it
   leaves a model; and the text, continued by that model, has the target's law at every horizon. *)
Theorem greedy_outcome_is_one :
  [/\ is_law greedy_outcome, path_of q n (o <- greedy_outcome ;; ret _ o.1),
      forall o, possible greedy_outcome o -> prefix o.2.1.1 o.1,
      forall o, possible greedy_outcome o -> is_model o.2.2
    & lossless_leaving p (o <- greedy_outcome ;; ret _ o.2)].
Proof.
split; [exact: greedy_outcome_law|exact: greedy_outcome_path| | |exact: greedy_outcome_lossless].
  by move=> o [w /greedy_outcome_drafted].
by move=> o [w /greedy_outcome_models].
Qed.
(* Greedy block verification accepts every text x of at most n tokens with min(p(x), q(x)), the most
   that any lossless verifier of one path reaches. *)
Theorem greedy_outcome_accepts x : (size x <= n)%N ->
  probability (fun o => prefix x o.2.1.1) greedy_outcome =
  Num.min (text (N := field_numbers R) p [::] x) (text (N := field_numbers R) q [::] x).
Proof.
move=> xn; rewrite /probability (expected_outcome (fun o => (prefix x o.1.1)%:R)).
by rewrite -[LHS]/(accepts x _) accepts_greedy_block // /shared xn.
Qed.
(* The expected number of tokens that greedy block verification accepts is the sum of
   min(p(x), q(x)) over all texts x of 1 to n tokens, the most that any lossless verifier of one
   path reaches. *)
Theorem greedy_outcome_length :
  expected (fun o => (size o.2.1.1)%:R) greedy_outcome = shared_length p q n.
Proof.
rewrite (expected_outcome (fun o => (size o.1.1)%:R)).
exact: expected_length.
Qed.
End Reached.
