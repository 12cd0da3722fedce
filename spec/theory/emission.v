(* Emissions, the text that they begin, and what makes a verifier lossless. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(* The accepted tokens, and the next token after them. *)
Notation emission T := (seq T * T)%type.

Section Programs.
Variables (N : numbers) (T : eqType).
Local Open Scope number_scope.

(* A model gives every context a row. *)
Definition model := seq T -> row N T.

(* The probability that a model writes t after z. *)
Fixpoint text (p : model) (z t : seq T) : N :=
  if t is y :: t' then p z y * text p (rcons z y) t' else 1.

(* A path of n tokens that a model writes after z. *)
Fixpoint path (vocabulary : seq T) (q : model) (n : nat) (z : seq T) : law N (seq T) :=
  if n is n'.+1 then
    x <- draw vocabulary (q z) ;; below <- path vocabulary q n' (rcons z x) ;; ret _ (x :: below)
  else ret _ [::].

Definition tokens (e : emission T) : seq T := rcons e.1 e.2.

(* The probability that the text begins with t: with the tokens emitted, then the target's own. *)
Definition begins (p : model) (t : seq T) (e : emission T) : N :=
  if prefix t (tokens e) then 1 else
  if prefix (tokens e) t then text p (tokens e) (drop (size (tokens e)) t) else 0.
End Programs.
Arguments model N T : clear implicits.

Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Lossless.
Variables (R : realFieldType) (T : finType).
Local Notation law := (law (field_numbers R)).
Local Notation model := (seq T -> T -> R).
Local Notation text := (@text (field_numbers R) T).
Implicit Types (p q : model) (m : law (emission T)) (x y t z : seq T).

Definition is_model p := forall z, is_row (p z).

Lemma text_rcons p z t (a : T) : text p z (rcons t a) = text p z t * p (z ++ t) a.
Proof.
elim: t z => [|b t IH] z /=; first by rewrite mulr1 mul1r cats0.
by rewrite IH cat_rcons mulrA.
Qed.
Lemma text_ge0 p z t : is_model p -> 0 <= text p z t.
Proof.
move=> p_ok; elim: t z => [|b t IH] z /=; first exact: ler01.
by apply: mulr_ge0 (IH _); case: (p_ok z).
Qed.

(* That x is accepted, with or without more; that x alone is accepted and y is next; that the text
   begins with t. *)
Definition accepts x m : R := probability (fun e => prefix x e.1) m.
Definition ends x (a : T) m : R := probability (fun e => e == (x, a)) m.
Definition writes p t m : R := expected (begins p t) m.

(* The law of the text is the target's, at every horizon. *)
Definition lossless p m := forall t, writes p t m = text p [::] t.

(* Whatever is accepted goes on as the target does, by an accepted token or by the next one. *)
Definition balanced p m := forall x a,
  accepts (rcons x a) m + ends x a m = accepts x m * p x a.

Lemma begins_nil p e : begins (N := field_numbers R) p [::] e = 1. Proof. by rewrite /begins prefix0s. Qed.

Lemma prefix_rconsE x y (a : T) : prefix y (rcons x a) = prefix y x || (y == rcons x a).
Proof.
elim: x y => [|b x IH] [|c y]; rewrite ?prefix0s // rcons_cons ?prefix_cons.
by rewrite IH eqseq_cons andb_orr.
Qed.
Lemma begins_rcons p x (a : T) e : begins (N := field_numbers R) p (rcons x a) e =
  (prefix (rcons x a) e.1)%:R + (e == (x, a))%:R
  + (begins (N := field_numbers R) p x e - (prefix x e.1)%:R) * p x a.
Proof.
case: e => u y; rewrite /begins /tokens xpair_eqE /=.
have [/prefixP[s ->]|no] := boolP (prefix x u).
  rewrite rcons_cat prefix_prefix subrr mul0r addr0.
  rewrite -cats1 !prefix_catr // eqxx /= -[X in _ == X]cats0 eqseq_cat // eqxx /=.
  case: s => [|b s] /=; last by rewrite !prefix0s !andbT; case: (a == b); rewrite ?addr0 //;
    case: s => [|? ?]; rewrite andbF.
  by rewrite !andbT add0r [a == y]eq_sym; case: (y == a).
have no_rcons : prefix (rcons x a) u = false.
  by apply/negP => /prefixP[s us]; move: no; rewrite us -cats1 -catA prefix_prefix.
have -> : (u == x) = false by apply/negP => /eqP ux; move: no; rewrite ux prefix_refl.
have tokens_not : (rcons u y == rcons x a) = false.
  by rewrite eqseq_rcons; apply/negP => /andP[/eqP ux _]; move: no; rewrite ux prefix_refl.
rewrite no_rcons !add0r subr0 !prefix_rconsE (negbTE no) no_rcons [rcons x a == _]eq_sym tokens_not.
rewrite !orbF; have [->|ne] := eqVneq x (rcons u y).
  by rewrite prefix_refl -[rcons (rcons u y) a]cats1 drop_size_cat //= mulr1 mul1r.
have [/prefixP[s xs]|_] := boolP (prefix (rcons u y) x); last by rewrite mul0r.
by rewrite xs rcons_cat !drop_size_cat // text_rcons.
Qed.

(* A law of emissions is lossless, at every horizon, if and only if it is balanced: after every x,
   what is accepted of xa and what ends at x with a next make up P(x is accepted) p(a|x). *)
Theorem lossless_balanced p m : is_law m -> lossless p m <-> balanced p m.
Proof.
move=> [_ m1]; have step x a : writes p (rcons x a) m =
    accepts (rcons x a) m + ends x a m + (writes p x m - accepts x m) * p x a.
  rewrite /writes /accepts /ends /probability -expected_add -expected_sub -expected_mulr -expected_add.
  by apply: eq_expected => e; rewrite begins_rcons.
have start : writes p [::] m = 1.
  by rewrite -[RHS]m1; apply: eq_expected => e; rewrite begins_nil.
split=> [ok x a|ok t].
  apply: (@addIr _ ((writes p x m - accepts x m) * p x a)).
  by rewrite -step -mulrDl addrCA subrr addr0 !ok text_rcons.
by elim/last_ind: t => [|x a IH] //; rewrite step ok IH text_rcons mulrBl addrC subrK.
Qed.
End Lossless.

(* ------------------------------------------------------------------------ possible outcomes *)
Local Arguments bind : simpl never.
Local Arguments ret : simpl never.
Local Arguments coin : simpl never.
Local Arguments expected : simpl never.

Section Possible.
Variable R : realFieldType.
Local Notation law := (law (field_numbers R)).
Implicit Types A B : Type.

(* An outcome that is listed with a weight. *)
Definition possible A (m : law A) (a : A) := exists2 w : R, List.In (a, w) m & w != 0.

Lemma eq_expected_possible A (f g : A -> R) (m : law A) :
  (forall a, possible m a -> f a = g a) -> expected f m = expected g m.
Proof.
elim: m => [|[a w] m IH] same //; rewrite !expected_cons /= IH => [|b [v b_in v0]]; last first.
  by apply: same; exists v => //; right.
have [->|w0] := eqVneq w 0; first by rewrite !mul0r.
by rewrite same //; exists w => //; left.
Qed.
Lemma expected_mono_possible A (f g : A -> R) (m : law A) : nonnegative m ->
  (forall a, possible m a -> f a <= g a) -> expected f m <= expected g m.
Proof.
move=> m0 fg; rewrite -subr_ge0 -expected_sub.
rewrite (@eq_expected_possible _ _ (fun a => Num.max 0 (g a - f a))) => [|a /fg le].
  by apply: expected_ge0 => // a; rewrite le_maxr lexx.
by symmetry; apply/max_idPr; rewrite subr_ge0.
Qed.
Lemma nonnegative_bind_possible A B (m : law A) (k : A -> law B) :
  nonnegative m -> (forall a, possible m a -> nonnegative (k a)) -> nonnegative (x <- m ;; k x).
Proof.
move=> m0 k0 o /in_bind[[a w] [c [a_in c_in ->]]] /=.
have [->|w0] := eqVneq w 0; first by rewrite mul0r.
apply: mulr_ge0; first exact: (m0 (a, w)).
by apply: (k0 a) c_in; exists w.
Qed.
Lemma law_bind_possible A B (m : law A) (k : A -> law B) :
  is_law m -> (forall a, possible m a -> is_law (k a)) -> is_law (x <- m ;; k x).
Proof.
move=> [m0 m1] k_law; split; first by apply: nonnegative_bind_possible => // a /k_law[].
by rewrite expected_bind -[RHS]m1; apply: eq_expected_possible => a /k_law[].
Qed.
Lemma ret_possible A (a : A) : possible (ret (field_numbers R) a) a.
Proof. by exists 1; [left|rewrite oner_neq0]. Qed.
Lemma bind_in A B (m : law A) (k : A -> law B) a b :
  List.In a m -> List.In b (k a.1) -> List.In (b.1, a.2 * b.2) (x <- m ;; k x).
Proof.
elim: m => [|c m IH] //= + b_in; rewrite /bind /= => -[->|a_in]; apply/List.in_or_app.
  by left; apply/List.in_map_iff; exists b.
by right; apply: IH.
Qed.
Lemma bind_possible A B (m : law A) (k : A -> law B) a b :
  possible m a -> possible (k a) b -> possible (x <- m ;; k x) b.
Proof.
case=> w a_in w0 [v b_in v0]; exists (w * v); last by rewrite mulf_neq0.
exact: (bind_in (a := (a, w)) a_in b_in).
Qed.
Lemma possible_ret A (a b : A) : possible (ret (field_numbers R) a) b -> b = a.
Proof. by case=> w [[<-]|[]]. Qed.
Lemma possible_bind A B (m : law A) (k : A -> law B) b :
  possible (x <- m ;; k x) b -> exists2 a, possible m a & possible (k a) b.
Proof.
case=> w + w0; elim: m => [|[a v] m IH] //.
rewrite /bind /= => /(@List.in_app_or _ _ _ _)[|b_in]; last first.
  by have [c [u c_in u0] ?] := IH b_in; exists c => //; exists u => //; right.
case/List.in_map_iff => -[c u] [[cb uw] c_in]; move: w0.
rewrite -uw mulf_eq0 negb_or.
by case/andP=> v0 u0; exists a; [exists v => //; left|exists u; rewrite // -cb].
Qed.
Lemma possible_draw (T : finType) (vocabulary : seq T) (r : T -> R) a :
  possible (draw (N := field_numbers R) vocabulary r) a ->
  normalised (N := field_numbers R) vocabulary r a != 0.
Proof. by case=> w /List.in_map_iff[x [[<- <-] _]]. Qed.
Lemma possible_coin (c : R) b : possible (coin (c : field_numbers R)) b ->
  if b then c != 0 else 1 - c != 0.
Proof. by case=> w [[<- <-]|[[<- <-]|[]]]. Qed.
Lemma eq_probability A (e e' : A -> bool) (m : law A) :
  e =1 e' -> probability e m = probability e' m.
Proof. by move=> same; apply: eq_expected => a; rewrite same. Qed.
Lemma expected_if A (e : A -> bool) (f : A -> R) (c : R) (m : law A) :
  (forall a, possible m a -> e a -> f a = c) ->
  expected (fun a => if e a then f a else 0) m = probability e m * c.
Proof.
move=> same; rewrite /probability -expected_mulr; apply: eq_expected_possible => a /same.
by case: (e a) => [->|] //; rewrite ?mul1r ?mul0r.
Qed.
End Possible.

(* Where at most n tokens are accepted, the texts of n + 1 tokens decide: a law of emissions under
   which every text t of at most n + 1 tokens has the target's probability, p(t), is lossless, at
   every horizon. *)
Theorem horizon (R : realFieldType) (T : finType) (p : seq T -> T -> R)
    (m : law (field_numbers R) (emission T)) n : is_law m ->
  (forall e, possible m e -> (size e.1 <= n)%N) ->
  (forall t, (size t <= n.+1)%N -> writes p t m = text (N := field_numbers R) p [::] t) ->
  lossless p m.
Proof.
move=> m_law short ok; apply/lossless_balanced => // x a.
have step : writes p (rcons x a) m =
    accepts (rcons x a) m + ends x a m + (writes p x m - accepts x m) * p x a.
  rewrite /writes /accepts /ends /probability -expected_sub -expected_mulr -!expected_add.
  by apply: eq_expected => e; rewrite begins_rcons.
have [xn|nx] := leqP (size x) n.
  apply: (@addIr _ ((writes p x m - accepts x m) * p x a)).
  by rewrite -step -mulrDl addrCA subrr addr0 !ok ?size_rcons // ?text_rcons // ltnW.
have none y : (n < size y)%N -> accepts y m = 0.
  move=> ny; rewrite -[RHS](expected_zero m); apply: eq_expected_possible => e /short en.
  apply/eqP; rewrite pnatr_eq0 eqb0; apply/negP => /size_prefix.
  by rewrite leqNgt (leq_ltn_trans en).
rewrite !none ?size_rcons ?ltnS ?(ltnW nx) // mul0r add0r -[RHS](expected_zero m).
apply: eq_expected_possible => e /short en; apply/eqP; rewrite pnatr_eq0 eqb0.
by apply/negP => /eqP ex; move: en; rewrite ex leqNgt nx.
Qed.

(* --------------------------------------------------------------------------- paths of a model *)
Section Paths.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variable q : seq T -> T -> R.
Hypothesis q_model : is_model q.
Local Notation path := (path (N := field_numbers R) vocabulary q).

Lemma law_path n z : is_law (path n z).
Proof.
elim: n z => [|n IH] z; first exact: law_ret.
apply: law_bind => [|a]; first exact: law_draw_row (q_model z).
by apply: law_bind => [|below]; [exact: IH|exact: law_ret].
Qed.
Lemma size_path n z o : List.In o (path n z) -> size o.1 = n.
Proof.
elim: n z o => [|n IH] z o /=; first by move=> [<-|[]].
by move=> /in_bind[a [c [_ /in_bind[b [d [/IH e [<-|[]] ->]]] ->]]] /=; rewrite e.
Qed.
End Paths.
