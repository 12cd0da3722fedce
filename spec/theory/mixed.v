(* Mixed multi-path block verification: go down sometimes to the highest-ranked sibling, sometimes
   to any of them; verify the selected path as a block.

   At every node the highest-ranked sibling is taken with a probability that may depend on what is
   known there for all drafts: the context, the mass owed to every next token, and the law of the
   selected path after either choice. Otherwise a sibling is taken at random. The probability that a
   prefix is selected and shared by n paths, for every n, gives the law of the next token, and the
   same numbers after it. Proved for every such probability, vocabulary, number and length of paths,
   pair of models and strict order of the tokens: the selected path has the law of the model that
   these numbers give and is one of those drafted, and so the text has the target's law at every
   horizon. Of the local rule: no other probability keeps more of the next token, and none that
   keeps as much is smaller; so a first token is accepted at least as often as with any other rule,
   and as by block verification and greedy multi-path block verification. Of several tokens it may
   accept fewer than these two.
   Draftproof's own. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission block descent selection.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (N : numbers) (T : eqType) (vocabulary : seq T).
Local Open Scope number_scope.

Fixpoint natural (n : nat) : N := if n is n'.+1 then 1 + natural n' else 0.

(* The sum of f over low, low + 1, ..., high - 1. *)
Definition sum_range (low high : nat) (f : nat -> N) : N :=
  foldr (fun i s => f i + s) 0 (iota low (high - low)).

(* The probability of the highest-ranked, from the context, the mass owed to every next token, and
   its law after either choice. *)
Definition mixture := seq T -> row N T -> row N T -> row N T -> N.

(* The share of the highest-ranked path that keeps most of the next token: the kept mass is concave
   and piecewise linear, so it is largest at an end or at a break. Of equals, the smallest. *)
Definition kept_next (owed highest uniform : row N T) (share : N) : N :=
  total vocabulary (fun a => least (owed a) (share * highest a + (1 - share) * uniform a)).
Definition breaks (owed highest uniform : row N T) : seq N :=
  let differs a := ~~ ((uniform a <= highest a) && (highest a <= uniform a)) in
  [seq share <- [seq (uniform a - owed a) / (uniform a - highest a) | a <- vocabulary & differs a]
  | ~~ (share <= 0) && ~~ (1 <= share)].
Definition most_kept_next : mixture := fun _ owed highest uniform =>
  let kept := kept_next owed highest uniform in
  foldl (fun best share => if kept share <= kept best then best else share) 0
    (rcons (sort (@at_most N) (breaks owed highest uniform)) 1).

Section Mixed.
Variables (rank : seq T -> T -> nat) (mix : mixture) (p q : model N T) (count : nat).
Local Notation lower := (lower vocabulary rank q).

(* alive: the probabilities that a prefix is selected and that 0, 1, ..., K paths share it. *)
Definition at_number (alive : seq N) (n : nat) : N := nth 0 alive n.

(* P(the prefix is selected, and each token is the highest-ranked one drafted there). *)
Definition law_of_highest (alive : seq N) (z : seq T) : row N T := fun a =>
  sum_range 0 (size alive) (fun n =>
    at_number alive n * (power (lower z a + q z a) n - power (lower z a) n)).
Definition law_of_any (alive : seq N) (z : seq T) : row N T := fun a =>
  sum_range 0 (size alive) (at_number alive) * q z a.

Definition share_at (z : seq T) (accepted : N) (alive : seq N) : N :=
  mix z (fun a => accepted * p z a) (law_of_highest alive z) (law_of_any alive z).
Definition law_after (z : seq T) (share : N) (alive : seq N) : row N T := fun a =>
  share * law_of_highest alive z a + (1 - share) * law_of_any alive z a.

(* `alive` after a token of draft probability x, above the mass f in rank. *)
Definition alive_after (alive : seq N) (share x f : N) : seq N :=
  0 :: [seq sum_range j (size alive) (fun n =>
    at_number alive n * power x j *
      (share * natural 'C(n, j) * power f (n - j)
       + (1 - share) * natural 'C(n.-1, j.-1) * power (1 - x) (n - j)))
  | j <- iota 1 (size alive).-1].

Fixpoint known_after (z rest : seq T) (accepted : N) (alive : seq N) : N * seq N :=
  if rest is a :: rest' then
    let share := share_at z accepted alive in
    known_after (rcons z a) rest' (least (accepted * p z a) (law_after z share alive a))
      (alive_after alive share (q z a) (lower z a))
  else (accepted, alive).
Definition known (z : seq T) : N * seq N :=
  known_after [::] z 1 (rcons (nseq count 0) 1).
Definition share_of (z : seq T) : N := share_at z (known z).1 (known z).2.

(* The law of the selected path; off the paths, the draft's own. *)
Definition mixed : model N T := fun z =>
  let '(accepted, alive) := known z in
  completed vocabulary (law_after z (share_at z accepted alive) alive) (q z).

Definition highest_or_any : choice N T := fun z tokens =>
  if highest (rank z) tokens is Some top then
    let share := share_of z in
    let any := (1 - share) / natural (size tokens) in
    draw vocabulary (fun a =>
      any * natural (count_mem a tokens) + (if a == top then share else 0))
  else [::].

Definition mixed_multipath_block (length : nat) : law N (emission T) :=
  path <- selected vocabulary highest_or_any q count length ;; verify vocabulary p mixed path.
End Mixed.
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
Variable rank : seq T -> T -> nat.
Hypothesis rank_strict : strict q rank.
Variable mix : mixture (field_numbers R) T.
Hypothesis mix01 : forall z owed highest uniform, 0 <= (mix z owed highest uniform : R) <= 1.
Variable count : nat.
Hypothesis some : (0 < count)%N.
Local Notation K := count.
Local Notation law := (law (field_numbers R)).
Local Notation draw := (@draw (field_numbers R) T vocabulary).
Local Notation lower := (@lower (field_numbers R) T vocabulary rank q).
Local Notation known := (@known (field_numbers R) T vocabulary rank mix p q K).
Local Notation known_after := (@known_after (field_numbers R) T vocabulary rank mix p q).
Local Notation alive_after := (@alive_after (field_numbers R)).
Local Notation law_after := (@law_after (field_numbers R) T vocabulary rank q).
Local Notation share_of := (@share_of (field_numbers R) T vocabulary rank mix p q K).
Local Notation share_at := (@share_at (field_numbers R) T vocabulary rank mix p q).
Local Notation mixed := (@mixed (field_numbers R) T vocabulary rank mix p q K).
Local Notation highest_or_any :=
  (@highest_or_any (field_numbers R) T vocabulary rank mix p q K).
Local Notation selected := (@selected (field_numbers R) T vocabulary highest_or_any q K).
Local Notation mixed_multipath_block :=
  (@mixed_multipath_block (field_numbers R) T vocabulary rank mix p q K).
Local Notation go_to_highest := (go_to_highest (field_numbers R) rank).
Implicit Types (z x s : seq T) (a b : T).

Let q0 z a : 0 <= q z a. Proof. by case: (q_model z). Qed.
Let q1 z : \sum_a q z a = 1. Proof. by case: (q_model z). Qed.
Let share01 z : 0 <= (share_of z : R) <= 1. Proof. exact: mix01. Qed.
Let share0 z : 0 <= (share_of z : R). Proof. by case/andP: (share01 z). Qed.
Let rest0 z : 0 <= 1 - share_of z. Proof. by rewrite subr_ge0; case/andP: (share01 z). Qed.
Let q_le1 z a : 0 <= 1 - q z a.
Proof. by rewrite -(q1 z) (bigD1 a) //= addrAC subrr add0r sumr_ge0. Qed.

Lemma naturalE n : natural (field_numbers R) n = n%:R.
Proof. by elim: n => [|n IH] //=; rewrite IH mulrS. Qed.
Lemma sum_rangeE (low high : nat) (f : nat -> R) :
  sum_range (N := field_numbers R) low high f = \sum_(low <= n < high) f n.
Proof. by rewrite /sum_range unlock /reducebig /index_iota; elim: (iota _ _) => //= n s ->. Qed.

(* The choice at a node. *)
Lemma total_weights s top (any share : R) : \sum_a (any * natural (field_numbers R) (count_mem a s)
  + (if a == top then share else 0)) = any * (size s)%:R + share.
Proof.
under eq_bigr do rewrite naturalE; rewrite big_split /= -mulr_sumr.
congr (_ * _ + _); last by rewrite -big_mkcond big_pred1_eq.
elim: s => [|b s IH] /=; first by rewrite big1.
under eq_bigr do rewrite natrD; rewrite big_split /= IH mulrS; congr (_ + _).
by rewrite (bigD1 b) //= eqxx big1 ?addr0 // => a; rewrite eq_sym => /negbTE->.
Qed.
Lemma weights_row z s top : s != [::] -> is_row (fun a => (1 - share_of z)
  / natural (field_numbers R) (size s) * natural (field_numbers R) (count_mem a s)
  + (if a == top then share_of z else 0)).
Proof.
move=> some_s; split=> [a|].
  rewrite !naturalE addr_ge0 ?mulr_ge0 ?invr_ge0 ?ler0n //; by case: ifP.
rewrite total_weights naturalE divfK ?subrK // pnatr_eq0.
by rewrite size_eq0.
Qed.
Lemma highest_or_any_chosen : chooses highest_or_any.
Proof.
move=> z s; rewrite /highest_or_any; case E: (highest _ s) => [top|]; last first.
  by rewrite (highest_none E); split=> // a [].
have some_s : s != [::] by move: (highest_in E); case: (s).
have [law0 law1] := law_draw_row complete (weights_row z top some_s).
split=> // a /possible_draw; apply: contraR => a_out.
have not_top : (a == top) = false by apply: contraNF a_out => /eqP->; apply: highest_in E.
by rewrite /normalised /= not_top (count_memPn a_out) /= mulr0 addr0 mul0r.
Qed.
Lemma chance_mixed z k a i : chance vocabulary q highest_or_any z k.+1 a i.+1 =
  q z a ^+ i.+1 * (share_of z * 'C(k.+1, i.+1)%:R * lower z a ^+ (k - i)
                   + (1 - share_of z) * 'C(k, i)%:R * (1 - q z a) ^+ (k - i)).
Proof.
have one_row s : s != [::] -> forall b, probability (pred1 b) (highest_or_any z s) =
    (1 - share_of z) / (size s)%:R * (count_mem b s)%:R
    + share_of z * probability (pred1 b) (go_to_highest z s).
  move=> some_s b; rewrite /highest_or_any /go_to_highest.
  case E: (highest _ s) => [top|]; last by rewrite (highest_none E) in some_s.
  rewrite /probability (expected_draw_row complete); last exact: weights_row.
  rewrite expected_ret sum_at !naturalE; congr (_ + _).
  by rewrite /= eq_sym; case: eqP; rewrite ?mulr1 ?mulr0.
transitivity (share_of z * chance vocabulary q go_to_highest z k.+1 a i.+1
    + (1 - share_of z) / k.+1%:R * i.+1%:R *
      probability (fun s => (count_mem a s == i.+1) && all (fun b => (b == a) || (b != a)) s)
        (independent (draw (q z)) k.+1)).
  rewrite /chance /probability -!expected_mull -expected_add.
  apply: eq_expected_possible => s can; have [size_s _] := possible_independent can.
  rewrite -/(probability _ _) one_row -?size_eq0 ?size_s // -/(probability _ _) mulrDl addrC.
  rewrite -!mulrA; congr (_ + _ * (_ * _)).
  have -> : all (fun b => (b == a) || (b != a)) s by apply/allP => b _; apply: orbN.
  by rewrite andbT; case: eqP => [->|]; rewrite ?mulr0.
have not_a : ~~ (a != a) by rewrite eqxx.
rewrite (chance_highest complete q_model rank_strict).
rewrite (@binomial _ _ _ complete _ q_model z a (fun b => b != a) k.+1 i.+1 not_a).
have -> : \sum_(b | b != a) q z b = 1 - q z a.
  by have total_q := q1 z; rewrite (bigD1 a) //= in total_q; rewrite -total_q addrAC subrr add0r.
rewrite !subSS [RHS]mulrDr; congr (_ + _).
  by rewrite -!mulrA [RHS]mulrCA; congr (_ * _); rewrite mulrCA.
have -> : (1 - share_of z) / k.+1%:R * i.+1%:R * ('C(k.+1, i.+1)%:R * q z a ^+ i.+1 *
    (1 - q z a) ^+ (k - i)) = (1 - share_of z) * ((i.+1%:R * 'C(k.+1, i.+1)%:R) / k.+1%:R) *
    (q z a ^+ i.+1 * (1 - q z a) ^+ (k - i)).
  rewrite -!mulrA; congr (_ * _); rewrite mulrCA; congr (_ * _); rewrite !mulrA; congr (_ * _).
  by rewrite -!mulrA; rewrite mulrC -!mulrA; congr (_ * _); rewrite mulrC.
rewrite -natrM -mul_bin_diag natrM [_%:R * 'C(_, _)%:R]mulrC mulfK ?pnatr_eq0 //.
by rewrite mulrCA.
Qed.

(* The probabilities that z is selected and that k paths share it. *)
Let alive z k : R := nth 0 (known z).2 k.
Let reach z : R := \sum_(k < K) alive z k.+1.

Lemma known_rcons z a : (known (rcons z a)).2 =
  alive_after (known z).2 (share_of z) (q z a) (lower z a).
Proof.
rewrite /known /share_of /known.
have after_ y u v : (known_after y (rcons z a) u v).2 = alive_after (known_after y z u v).2
    (share_at (y ++ z) (known_after y z u v).1 (known_after y z u v).2)
    (q (y ++ z) a) (lower (y ++ z) a).
  elim: z y u v => [|b z IH] y u v /=; first by rewrite cats0.
  by rewrite IH cat_rcons.
exact: after_.
Qed.
Lemma size_known z : size (known z).2 = K.+1.
Proof.
elim/last_ind: z => [|z a IH]; first by rewrite /= size_rcons size_nseq.
by rewrite known_rcons /= size_map size_iota IH.
Qed.
Lemma alive0 z : alive z 0 = 0.
Proof.
rewrite /alive; case/lastP: z => [|z a]; last by rewrite known_rcons.
by rewrite /= nth_rcons size_nseq some nth_nseq some.
Qed.
Lemma alive_root (k : 'I_K) : alive [::] k.+1 = (k.+1 == K)%:R.
Proof.
rewrite /alive /= nth_rcons size_nseq nth_nseq.
by case: (ltngtP k.+1 K) (ltn_ord k).
Qed.
Lemma alive_next z a (i : 'I_K) : alive (rcons z a) i.+1 =
  \sum_(k < K) alive z k.+1 * chance vocabulary q highest_or_any z k.+1 a i.+1.
Proof.
rewrite {1}/alive known_rcons /alive_after size_known /= (nth_map 0%N) ?size_iota //.
rewrite nth_iota // add1n sum_rangeE.
under [RHS]eq_bigr do rewrite chance_mixed.
rewrite -(big_mkord xpredT (fun k => alive z k.+1 * (q z a ^+ i.+1 *
  (share_of z * 'C(k.+1, i.+1)%:R * lower z a ^+ (k - i)
   + (1 - share_of z) * 'C(k, i)%:R * (1 - q z a) ^+ (k - i))))).
rewrite [RHS](@big_cat_nat _ _ _ i) ?(ltnW (ltn_ord i)) //.
rewrite [X in _ = X + _]big_nat_cond big1 ?add0r => [|k /andP[/andP[_ ki] _]]; last first.
  by rewrite !bin_small // !mulr0 !mul0r addr0 !mulr0.
rewrite big_add1 [K.+1.-1]/=; apply: eq_bigr => k _.
by rewrite !powerE !naturalE subSS !mulrA.
Qed.
Lemma alive_ge0 z k : 0 <= alive z k.
Proof.
elim/last_ind: z k => [|z a IH] k.
  rewrite /alive /= nth_rcons nth_nseq; case: ifP => _; first by case: ifP.
  by case: ifP => _; [exact: ler01|exact: lexx].
case: k => [|i]; first by rewrite alive0.
have [lt|ge] := ltnP i K; last by rewrite /alive nth_default // size_known.
rewrite (alive_next z a (Ordinal lt)) sumr_ge0 // => k _.
by rewrite mulr_ge0 // chance_mixed mulr_ge0 ?addr_ge0 ?mulr_ge0 ?exprn_ge0 ?ler0n //
  (lower_ge0 complete q_model).
Qed.
Lemma reach_ge0 z : 0 <= reach z. Proof. by apply: sumr_ge0 => k _; apply: alive_ge0. Qed.

Lemma binomial_sum n m (x y : R) : (n < m)%N ->
  \sum_(i < m) 'C(n, i)%:R * x ^+ i * y ^+ (n - i) = (y + x) ^+ n.
Proof.
move=> nm; rewrite exprDn (big_ord_widen m (fun i => y ^+ (n - i) * x ^+ i *+ 'C(n, i))) //.
rewrite [RHS]big_mkcond; apply: eq_bigr => i _; case: ltnP => [_|ni].
  by rewrite -[in RHS]mulr_natl -mulrA [x ^+ _ * _]mulrC.
by rewrite bin_small // mulr0n !mul0r.
Qed.
Lemma chosen_mixed z k a : (k < K)%N ->
  \sum_(i < K) chance vocabulary q highest_or_any z k.+1 a i.+1 =
  share_of z * ((lower z a + q z a) ^+ k.+1 - lower z a ^+ k.+1) + (1 - share_of z) * q z a.
Proof.
move=> kK; under eq_bigr do rewrite chance_mixed mulrDr.
rewrite big_split /=; congr (_ + _).
  rewrite -(@binomial_sum _ K.+1) ?ltnS // big_ord_recl /= bin0 expr0 !mul1r subn0.
  rewrite addrAC subrr add0r mulr_sumr; apply: eq_bigr => i _; rewrite /bump /= add1n subSS.
  by rewrite mulrCA !mulrA; congr (_ * _); rewrite -!mulrA; congr (_ * _); rewrite mulrC.
transitivity ((1 - share_of z) * q z a * ((1 - q z a) + q z a) ^+ k); last first.
  by rewrite subrK expr1n mulr1.
rewrite -(@binomial_sum _ K) // mulr_sumr; apply: eq_bigr => i _.
rewrite exprS [(1 - _) * q z a]mulrC -!mulrA; congr (_ * _).
by rewrite mulrCA; congr (_ * _); rewrite mulrCA.
Qed.
Lemma law_afterE z a : law_after z (share_of z) (known z).2 a = reach (rcons z a).
Proof.
rewrite /reach; under eq_bigr do rewrite alive_next.
rewrite exchange_big /=; under eq_bigr => k _ do rewrite -mulr_sumr chosen_mixed //.
rewrite /law_after /law_of_highest /law_of_any !sum_rangeE size_known /= !big_mkord.
rewrite big_ord_recl [X in _ + _ * (X * _)]big_ord_recl.
have -> : at_number (N := field_numbers R) (known z).2 (@ord0 K) = 0 by exact: alive0.
rewrite mul0r !add0r mulr_suml !mulr_sumr -big_split; apply: eq_bigr => k _.
have -> : lift ord0 k = k.+1 :> nat by [].
rewrite !powerE -[at_number _ _]/(alive z k.+1) mulrDr; congr (_ + _).
  by rewrite mulrCA.
by rewrite [RHS]mulrCA.
Qed.

Lemma mixedE z : mixed z =
  completed (N := field_numbers R) vocabulary (law_after z (share_of z) (known z).2) (q z).
Proof. by rewrite /mixed /share_of; case: (known z). Qed.

(* The model of the path that mixed selection selects is a model: after every context its numbers
   are nonnegative and sum to 1. *)
Theorem mixed_model : is_model mixed.
Proof.
move=> z; rewrite mixedE; apply: (completed_row complete) (q_model z) => a.
by rewrite law_afterE reach_ge0.
Qed.
Lemma mixed_next z a : mixed z a * reach z = reach (rcons z a).
Proof.
have total_z : \sum_a reach (rcons z a) = reach z.
  exact: (reach_next complete q_model highest_or_any_chosen alive_next).
rewrite mixedE -total_z -law_afterE; under eq_bigr do rewrite -law_afterE.
by rewrite (completedE complete) // => b; rewrite law_afterE reach_ge0.
Qed.

(* The path that mixed selection selects has the law of a path of as many tokens drawn from the
   model `mixed`. *)
Theorem selected_mixed n : selects vocabulary mixed n (selected n).
Proof.
exact: (selected_alive complete q_model highest_or_any_chosen alive_root alive_next mixed_model
  mixed_next some n).
Qed.
(* The probability that the path of n tokens that mixed selection selects starts with z is the sum
   of alive z k over 1 <= k <= K, alive z k being the probability that z is selected and shared by k
   paths, if z has at most n tokens, and else 0. *)
Theorem selected_mixed_starts n z : probability (prefix z) (selected n) =
  if (size z <= n)%N then \sum_(k < K) nth 0 (known z).2 k.+1 else 0.
Proof.
exact: (selected_starts complete q_model highest_or_any_chosen alive_root alive_next mixed_model
  mixed_next some n).
Qed.

(* The path that mixed selection selects is one of the K > 0 paths drafted. *)
Theorem mixed_drafted n drafted x :
  possible (independent (path (N := field_numbers R) vocabulary q n [::]) K) drafted ->
  possible (select highest_or_any n [::] drafted) x -> x \in drafted.
Proof. exact: (possible_select highest_or_any_chosen some). Qed.

(* The outcome of mixed multi-path block verification has the law of that of block verification of
   one path drawn from the model `mixed`. *)
Theorem mixed_multipath_block_outcome n f :
  expected f (mixed_multipath_block n) = expected f (block vocabulary p mixed n).
Proof. exact: selected_block (selected_mixed n). Qed.
(* At least x is accepted by mixed multi-path block verification with block verification's
   probability, with the law Q' of the selected path in place of q: Q'(x) w(x), where w is 1 at the
   root and w(za) = min(1, w(z) p(a|z) / Q'(a|z)), and 0 if x is longer than the paths. *)
Theorem mixed_multipath_block_accepts n x : accepts x (mixed_multipath_block n) =
  if (size x <= n)%N then kept_mass (N := field_numbers R) p mixed x [::] 1 else 0.
Proof.
rewrite -(block_accepts complete p_model mixed_model).
exact: mixed_multipath_block_outcome.
Qed.
(* Exactly x is accepted by mixed multi-path block verification and a is next with block
   verification's probability, with the law Q' of the selected path in place of q:
   Q'(x) max(w(x) p(a|x) - Q'(a|x), 0) if x is shorter than the paths, Q'(x) w(x) p(a|x) if it is as
   long, w being 1 at the root and w(za) = min(1, w(z) p(a|z) / Q'(a|z)), and 0 if it is longer. *)
Theorem mixed_multipath_block_ends n x a :
  ends x a (mixed_multipath_block n) = end_mass p mixed n x a [::] 1.
Proof.
rewrite -(block_ends complete p_model mixed_model).
exact: mixed_multipath_block_outcome.
Qed.
(* The outcome of mixed multi-path block verification is a law: its weights are nonnegative and sum
   to 1. *)
Theorem mixed_multipath_block_law n : is_law (mixed_multipath_block n).
Proof.
apply: (selected_block_law complete p_model mixed_model) (selected_mixed n).
exact: (nonnegative_selected complete q_model highest_or_any_chosen).
Qed.
(* With mixed multi-path block verification, for any shares between 0 and 1 and any strict order of
   the tokens that can be drafted, the text has the target's law at every horizon. *)
Theorem mixed_multipath_block_lossless n : lossless p (mixed_multipath_block n).
Proof. exact: (selected_block_lossless complete p_model mixed_model (selected_mixed n)). Qed.
(* Mixed multi-path block verification is balanced: after every x, that xa is accepted and that x
   alone is accepted with a next have together the probability P(x is accepted) p(a|x). *)
Theorem mixed_multipath_block_balanced n : balanced p (mixed_multipath_block n).
Proof.
apply/(lossless_balanced p (mixed_multipath_block_law n)); exact: mixed_multipath_block_lossless.
Qed.

(* The first token: the highest-ranked of K has this law. *)
Definition first_highest a : R := (lower [::] a + q [::] a) ^+ K - lower [::] a ^+ K.
Definition kept_first (share : R) : R :=
  \sum_a Num.min (p [::] a) (share * first_highest a + (1 - share) * q [::] a).

Let root : seq R := rcons (nseq K 0) 1.
Let sum_root (f : nat -> R) :
  sum_range (N := field_numbers R) 0 (size root)
    (fun n => at_number (N := field_numbers R) root n * f n) = f K.
Proof.
rewrite sum_rangeE size_rcons size_nseq big_mkord big_ord_recr /= big1 => [|i _]; last first.
  by rewrite /at_number nth_rcons size_nseq ltn_ord nth_nseq ltn_ord mul0r.
by rewrite /at_number nth_rcons size_nseq ltnn eqxx mul1r add0r.
Qed.
Lemma first_highestE a :
  law_of_highest (N := field_numbers R) vocabulary rank q root [::] a = first_highest a.
Proof.
rewrite /first_highest -!powerE; pose power := power (N := field_numbers R).
exact: (sum_root (fun n => power (lower [::] a + q [::] a) n - power (lower [::] a) n)).
Qed.
Lemma first_anyE a : law_of_any (N := field_numbers R) q root [::] a = q [::] a.
Proof.
rewrite /law_of_any /= -[RHS]mul1r; congr (_ * _); rewrite -(sum_root (fun=> 1)) !sum_rangeE.
by apply: eq_bigr => n _; rewrite mulr1.
Qed.
Lemma mixed_first a :
  mixed [::] a = share_of [::] * first_highest a + (1 - share_of [::]) * q [::] a.
Proof.
have sure : reach [::] = 1 := reach_root alive_root some.
rewrite -[LHS]mulr1 -[X in _ * X]sure mixed_next -(law_afterE [::] a) /law_after.
by rewrite -[(known [::]).2]/root first_highestE first_anyE.
Qed.
Lemma kept_mass_first (Q : seq T -> T -> R) a : is_model Q ->
  kept_mass (N := field_numbers R) p Q [:: a] [::] 1 = Num.min (p [::] a) (Q [::] a).
Proof.
move=> /(_ [::])[Q0 _]; have [p0 _] := p_model [::].
by rewrite /= /weight_after leastE /= mul1r kept_share // minC.
Qed.
Lemma accepts_some_each (m : law (emission T)) :
  probability (fun e => e.1 != [::]) m = \sum_a accepts [:: a] m.
Proof.
rewrite -expected_sum; apply: eq_expected => -[[|b u] y] /=; first by rewrite big1.
by rewrite (bigD1 b) //= eqxx prefix0s big1 ?addr0 // => a /negbTE->.
Qed.
(* Mixed multi-path block verification accepts anything with the probability that is the sum over
   all tokens a of min(p(a), s h(a) + (1 - s) q(a)), s being the share of the highest-ranked at the
   root and h(a) = (F + q(a))^K - F^K, with the mass F ranked below a, the law of the highest of K.
   *)
Theorem mixed_accepts_some n : probability (fun e => e.1 != [::]) (mixed_multipath_block n.+1) =
  kept_first (share_of [::]).
Proof.
rewrite accepts_some_each; apply: eq_bigr => a _.
by rewrite mixed_multipath_block_accepts kept_mass_first ?mixed_first //; apply: mixed_model.
Qed.
(* Greedy multi-path block verification accepts anything with the probability that is the sum over
   all tokens a of min(p(a), h(a)), h(a) = (F + q(a))^K - F^K, with the mass F ranked below a, being
   the law of the highest of K: what the share s = 1 keeps of the first token. *)
Theorem multipath_accepts_some n :
  probability (fun e => e.1 != [::]) (multipath_block vocabulary rank p q K n.+1) = kept_first 1.
Proof.
rewrite accepts_some_each; apply: eq_bigr => a _.
have ok := skewed_model complete q_model rank K.
rewrite (multipath_block_accepts complete p_model q_model rank_strict some) kept_mass_first //.
congr Num.min; have := @skewed_row _ _ _ complete _ q_model _ rank_strict K [::] a.
rewrite /below /mass /standing /= add0r expr1n expr0n (gtn_eqF some) subr0 !mul1r divr1 => -> //.
  by rewrite subrr mul0r addr0 !add0r.
exact: oner_neq0.
Qed.
(* Block verification of one path accepts anything with the probability that is the sum over all
   tokens a of min(p(a), q(a)): what the share s = 0 keeps of the first token. *)
Theorem block_accepts_some n :
  probability (fun e => e.1 != [::]) (block vocabulary p q n.+1) = kept_first 0.
Proof.
rewrite accepts_some_each; apply: eq_bigr => a _.
by rewrite (block_accepts complete p_model q_model) kept_mass_first // mul0r add0r subr0 mul1r.
Qed.
End Theorems.

(* ------------------------------------------------------------------- the share that keeps most *)
Section MostKept.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables owed highest uniform : T -> R.
Local Notation kept := (@kept_next (field_numbers R) T vocabulary owed highest uniform).
Local Notation breaks := (@breaks (field_numbers R) T vocabulary owed highest uniform).
Local Notation most_kept :=
  (@most_kept_next (field_numbers R) T vocabulary [::] owed highest uniform : R).
Implicit Types (s t low high : R).

Let better best s : R := if kept s <= kept best then best else s.
Let best_in (best : R) (shares : seq R) : foldl better best shares \in best :: shares.
Proof.
elim: shares best => [|s shares IH] best; first by rewrite inE.
have := IH (better best s); rewrite /= /better !inE; case: ifP => _ /orP[->|->]; rewrite ?orbT //.
Qed.
Let best_of (best : R) (shares : seq R) s :
  s \in best :: shares -> kept s <= kept (foldl better best shares).
Proof.
elim: shares best s => [|t shares IH] best s; first by rewrite inE => /eqP->.
have up : kept best <= kept (better best t) /\ kept t <= kept (better best t).
  by rewrite /better; case: (lerP (kept t) (kept best)) => [|/ltW]; rewrite lexx.
rewrite inE => /orP[/eqP->|].
  by apply: le_trans (proj1 up) (IH _ _ _); rewrite mem_head.
rewrite inE => /orP[/eqP->|s_in].
  by apply: le_trans (proj2 up) (IH _ _ _); rewrite mem_head.
by apply: IH; rewrite inE s_in orbT.
Qed.

(* Of shares in ascending order, that is the first of the best. *)
Let best_first (best : R) (shares : seq R) s : path.path <=%R best shares ->
  s \in best :: shares -> kept (foldl better best shares) <= kept s ->
  foldl better best shares <= s.
Proof.
elim: shares best s => [|t shares IH] best s; first by rewrite inE => _ /eqP->.
rewrite -[foldl better best (t :: shares)]/(foldl better (better best t) shares).
rewrite [path.path _ _ _]/= => /andP[best_t sorted_t].
have := sorted_t; rewrite (path_sortedE le_trans) => /andP[above ok].
have sorted_best : path.path <=%R best shares.
  rewrite (path_sortedE le_trans) ok andbT; apply/allP => r /(allP above).
  exact: le_trans.
have [less|more] := lerP (kept t) (kept best).
  have -> : better best t = best by rewrite /better less.
  rewrite inE orbC inE -orbA => /or3P[/eqP->|s_in|/eqP->] all_less.
  - apply: le_trans best_t; apply: IH; rewrite ?mem_head //.
    exact: le_trans all_less less.
  - by apply: IH; rewrite // inE s_in orbT.
  by apply: IH; rewrite ?mem_head.
have -> : better best t = t by rewrite /better leNgt more.
rewrite inE => /orP[/eqP-> all_less|s_in]; last exact: IH.
have := le_lt_trans all_less more; rewrite ltNge.
by rewrite best_of // mem_head.
Qed.

Let candidates : seq R := 0 :: rcons (sort <=%R breaks) 1.
Let mem_candidates s : (s \in candidates) = [|| s == 0, s == 1 | s \in breaks].
Proof. by rewrite inE mem_rcons inE mem_sort. Qed.
Let in01 s : s \in breaks -> 0 < s < 1.
Proof. by rewrite mem_filter -!ltNge => /andP[]. Qed.
Let candidates_path : path.path <=%R 0 (rcons (sort <=%R breaks) 1).
Proof.
rewrite -cats1 cat_path (path_sortedE le_trans) sort_sorted ?andbT => [|s t]; last exact: le_total.
apply/andP; split; first by apply/allP => s; rewrite mem_sort => /in01/andP[/ltW].
have := mem_last 0 (sort <=%R breaks); rewrite inE mem_sort /= andbT.
by case/orP=> [/eqP->|/in01/andP[_ /ltW]]; rewrite ?ler01.
Qed.

(* The share s that the local rule takes, for which the sum over all tokens a of
   min(owed(a), s highest(a) + (1 - s) uniform(a)) is largest, has 0 <= s <= 1. *)
Theorem most_kept_share : 0 <= most_kept <= 1.
Proof.
have : most_kept \in candidates by apply: best_in.
rewrite mem_candidates => /or3P[/eqP->|/eqP->|/in01/andP[/ltW-> /ltW->] //].
  by rewrite lexx ler01.
by rewrite ler01 lexx.
Qed.

Let mix_of a s : R := s * highest a + (1 - s) * uniform a.
Let between low high t : R := (1 - t) * low + t * high.
Let keptE s : kept s = \sum_a Num.min (owed a) (mix_of a s).
Proof. by rewrite /kept_next (totalE complete); apply: eq_bigr => a _; rewrite leastE. Qed.
Let mix_between a low high t :
  mix_of a (between low high t) = between (mix_of a low) (mix_of a high) t.
Proof.
rewrite /mix_of /between; set h := highest a; set u := uniform a.
have line s : s * h + (1 - s) * u = u - s * (u - h).
  by rewrite mulrBl mul1r mulrBr opprB addrCA addrA.
rewrite !line; move: (u - h) => d.
by rewrite 2!mulrBr addrACA -mulrDl subrK mul1r -opprD !mulrA -mulrDl.
Qed.

(* The kept mass is concave, *)
Lemma kept_concave low high t : 0 <= t <= 1 ->
  between (kept low) (kept high) t <= kept (between low high t).
Proof.
move=> /andP[t0 t1]; rewrite !keptE /between !mulr_sumr -big_split /=; apply: ler_sum => a _.
rewrite -/(between low high t) mix_between /between le_minr; apply/andP; split.
  rewrite -[X in _ <= X](subrK (t * owed a)) -[X in _ <= X - _ + _]mul1r -mulrBl.
  by apply: ler_add; apply: ler_wpmul2l; rewrite ?subr_ge0 // le_minl lexx.
by apply: ler_add; apply: ler_wpmul2l; rewrite ?subr_ge0 // le_minl lexx orbT.
Qed.
(* and linear where no break is between. *)
Lemma kept_linear low high t : 0 <= low -> low <= high -> high <= 1 ->
  (forall s, s \in breaks -> ~~ (low < s < high)) -> 0 <= t <= 1 ->
  kept (between low high t) = between (kept low) (kept high) t.
Proof.
move=> low0 low_high high1 unbroken /andP[t0 t1].
rewrite !keptE /between !mulr_sumr -big_split /=; apply: eq_bigr => a _.
rewrite -/(between low high t) mix_between.
have in_full : between (owed a) (owed a) t = owed a by rewrite /between -mulrDl subrK mul1r.
have convex x y x' y' : x <= x' -> y <= y' -> between x y t <= between x' y' t.
  by move=> xx yy; apply: ler_add; apply: ler_wpmul2l; rewrite ?subr_ge0.
suff : (owed a <= mix_of a low) && (owed a <= mix_of a high) \/
    (mix_of a low <= owed a) && (mix_of a high <= owed a).
  case=> /andP[at_low at_high].
    rewrite !(min_idPl _) ?at_low ?at_high -/(between _ _ _) ?in_full //.
    by rewrite -in_full; apply: convex.
  rewrite !(min_idPr _) ?at_low ?at_high //.
  by rewrite -in_full; apply: convex.
have [same|differ] := eqVneq (uniform a) (highest a).
  have flat s : mix_of a s = highest a by rewrite /mix_of same -mulrDl addrC subrK mul1r.
  by rewrite !flat !andbb; apply/orP; apply: le_total.
pose z := (uniform a - owed a) / (uniform a - highest a).
have lineE s : mix_of a s - owed a = (z - s) * (uniform a - highest a).
  rewrite mulrBl divfK ?subr_eq0 // /mix_of mulrBl mul1r mulrBr opprB.
  by rewrite addrCA addrAC.
have outside : (z <= low) || (high <= z).
  rewrite !leNgt -negb_and; apply: contraT; rewrite negbK => z_between.
  have := unbroken z; rewrite z_between; apply; rewrite mem_filter -!ltNge.
  have /andP[low_z z_high] := z_between.
  rewrite (le_lt_trans low0 low_z) (lt_le_trans z_high high1) /=; apply: map_f.
  by rewrite mem_filter -eq_le differ (perm_mem complete) mem_enum.
rewrite -![owed a <= _]subr_ge0 -![_ <= owed a]subr_le0 !lineE.
have [up|down] := lerP 0 (uniform a - highest a); case/orP: outside => at_z.
- by right; rewrite !mulr_le0_ge0 // subr_le0 // (le_trans at_z).
- by left; rewrite !mulr_ge0 // subr_ge0 // (le_trans low_high).
- by left; rewrite !mulr_le0 ?(ltW down) // subr_le0 // (le_trans at_z).
by right; rewrite !mulr_ge0_le0 ?(ltW down) // subr_ge0 // (le_trans low_high).
Qed.

(* The candidates next to a share, below it and above. *)
Let nearest (before : rel R) (start : R) (shares : seq R) s :
  ssrbool.total before -> ssrbool.transitive before -> before start s ->
  exists2 near, (near \in start :: shares) && before near s
    & forall t, t \in shares -> before t s -> before t near.
Proof.
move=> either trans start_s; elim: shares => [|t shares [near /andP[near_in near_s] nearest]].
  by exists start; rewrite ?mem_head.
have [/andP[t_s near_t]|off] := boolP (before t s && before near t).
  exists t => [|r]; first by rewrite t_s !inE eqxx orbT.
  rewrite inE => /orP[/eqP-> _|/nearest up /up r_near]; last exact: trans near_t.
  by case/orP: (either t t).
exists near => [|r]; first by move: near_in; rewrite near_s !inE => /orP[]->; rewrite ?orbT.
rewrite inE => /orP[/eqP-> t_s|/nearest//].
by move: off; rewrite t_s; case/orP: (either t near) => ->.
Qed.
Let around s : 0 <= s <= 1 -> exists low high t, [/\ (low \in candidates) && (high \in candidates),
  low <= s, 0 <= t <= 1, s = between low high t
  & kept s = between (kept low) (kept high) t].
Proof.
move=> /andP[s0 s1].
have [low /andP[low_in low_s] low_most] := nearest breaks le_total le_trans s0.
have [high /andP[high_in /= s_high] high_least] := nearest breaks ge_total ge_trans s1.
have share01 t : t \in breaks -> 0 <= t <= 1 by move=> /in01/andP[/ltW-> /ltW->].
have low0 : 0 <= low by move: low_in; rewrite inE => /orP[/eqP->|/share01/andP[]].
have high1 : high <= 1 by move: high_in; rewrite inE => /orP[/eqP->|/share01/andP[]].
have [t t01 sE] : exists2 t, 0 <= t <= 1 & s = between low high t.
  have [same|differ] := eqVneq low high.
    exists 0; first by rewrite lexx ler01.
    rewrite /between subr0 mul1r mul0r addr0; apply/eqP.
    by rewrite eq_le low_s {1}same s_high.
  have width : 0 < high - low by rewrite subr_gt0 lt_def eq_sym differ (le_trans low_s).
  exists ((s - low) / (high - low)).
    rewrite divr_ge0 ?subr_ge0 ?(ltW width) ?(le_trans low_s) // ler_pdivr_mulr // mul1r.
    by rewrite ler_add2r.
  rewrite /between mulrBl mul1r addrAC -addrA -mulrBr divfK ?gt_eqF //.
  by rewrite addrC subrK.
exists low, high, t; split=> //.
  rewrite !mem_candidates; move: low_in high_in; rewrite !inE.
  by do 2![case/orP=> ->]; rewrite ?orbT.
rewrite {1}sE; apply: kept_linear => //; first exact: le_trans s_high.
move=> b b_in; apply/negP => /andP[low_b b_high].
have [b_s|/ltW s_b] := lerP b s; first by have := low_most b b_in b_s; rewrite leNgt low_b.
by have := high_least b b_in s_b; rewrite leNgt b_high.
Qed.

(* No share s with 0 <= s <= 1 keeps more of the next token than the share that the local rule
   takes: the sum over all tokens a of min(owed(a), s highest(a) + (1 - s) uniform(a)) is largest
   there. *)
Theorem most_kept_most s : 0 <= s <= 1 -> kept s <= kept most_kept.
Proof.
case/around=> low [high [t [/andP[low_in high_in] _ /andP[t0 t1] _ ->]]].
have low_most : kept low <= kept most_kept by exact: best_of low_in.
have high_most : kept high <= kept most_kept by exact: best_of high_in.
have -> : kept most_kept = between (kept most_kept) (kept most_kept) t.
  by rewrite /between -mulrDl subrK mul1r.
by apply: ler_add; apply: ler_wpmul2l; rewrite ?subr_ge0.
Qed.
(* Of the shares s with 0 <= s <= 1 for which the sum over all tokens a of
   min(owed(a), s highest(a) + (1 - s) uniform(a)) is largest, the local rule takes the smallest. *)
Theorem most_kept_smallest s : 0 <= s <= 1 -> kept s = kept most_kept -> most_kept <= s.
Proof.
case/around=> low [high [t [/andP[low_in high_in] low_s /andP[t0 t1] sE keptsE]]] equal.
have [t_one|not_one] := eqVneq t 1.
  have s_high : s = high by rewrite sE /between t_one subrr mul0r add0r mul1r.
  apply: best_first candidates_path _ _; first by rewrite s_high.
  by rewrite equal.
apply: le_trans low_s; apply: best_first candidates_path low_in _.
have rest0 : 0 < 1 - t by rewrite subr_gt0 lt_def eq_sym not_one.
rewrite -(ler_pmul2l rest0) -(ler_add2r (t * kept most_kept)) -[X in X <= _]mulrDl subrK mul1r.
rewrite -equal keptsE ler_add2l -keptsE equal ler_wpmul2l //.
exact: best_of high_in.
Qed.
End MostKept.

(* So the reference's own mixture is one to which the theorems apply. *)
Lemma most_kept_next01 (R : realFieldType) (T : finType) (vocabulary : seq T) z
  (owed highest uniform : T -> R) :
  0 <= (most_kept_next (N := field_numbers R) vocabulary z owed highest uniform : R) <= 1.
Proof. exact: most_kept_share. Qed.

Section MixedByRatio.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Variable count : nat.
Hypothesis some : (0 < count)%N.
Local Notation by_ratio := (by_ratio (N := field_numbers R) vocabulary p q).
Local Notation most_kept := (most_kept_next (N := field_numbers R) vocabulary).

(* With the reference's order of the tokens, the lowest p/q first and equals as they come in the
   vocabulary, and with the share that keeps most of the next token, mixed multi-path block
   verification of K > 0 paths of n tokens is a law, is balanced and gives the text the target's law
   at every horizon. *)
Theorem mixed_by_ratio n :
  let m := mixed_multipath_block (N := field_numbers R) vocabulary (in_order by_ratio) most_kept
    p q count n in
  [/\ is_law m, balanced p m & lossless p m].
Proof.
have rank_strict : strict q (in_order by_ratio).
  by apply: strict_by_ratio => // z a; case: (q_model z).
have mix01 := @most_kept_next01 R T vocabulary.
split.
- exact: mixed_multipath_block_law.
- exact: mixed_multipath_block_balanced.
exact: mixed_multipath_block_lossless.
Qed.
End MixedByRatio.

(* At the first token, which may be the only one, the local rule accepts most. *)
Section First.
Variables (R : realFieldType) (T : finType) (vocabulary : seq T).
Hypothesis complete : perm_eq vocabulary (enum T).
Variables p q : seq T -> T -> R.
Hypotheses (p_model : is_model p) (q_model : is_model q).
Variable rank : seq T -> T -> nat.
Hypothesis rank_strict : strict q rank.
Variable count : nat.
Hypothesis some : (0 < count)%N.
Local Notation kept_first := (@kept_first R T vocabulary p q rank count).
Local Notation most_kept := (@most_kept_next (field_numbers R) T vocabulary).
Local Notation accepts_some m := (probability (fun e => e.1 != [::]) m).
Local Notation mixed_multipath_block mix :=
  (@mixed_multipath_block (field_numbers R) T vocabulary rank mix p q count).

(* Mixed multi-path block verification with the local rule accepts anything with a probability of at
   least the sum over all tokens a of min(p(a), s h(a) + (1 - s) q(a)), for every share s with
   0 <= s <= 1, h being the law of the highest of the K first tokens. *)
Theorem most_kept_first share n : 0 <= share <= 1 ->
  kept_first share <= accepts_some (mixed_multipath_block most_kept n.+1).
Proof.
pose root : seq R := rcons (nseq count 0) 1.
pose kept := kept_next (N := field_numbers R) vocabulary (fun a => 1 * p [::] a)
  (law_of_highest (N := field_numbers R) vocabulary rank q root [::])
  (law_of_any (N := field_numbers R) q root [::]).
have keptE s : kept_first s = kept s.
  rewrite /kept /kept_next (totalE complete); apply: eq_bigr => a _.
  by rewrite leastE -(first_highestE vocabulary q rank count) -(first_anyE q count) mul1r.
have in01 := @most_kept_next01 R T vocabulary.
move=> share01; rewrite (mixed_accepts_some complete p_model q_model rank_strict in01 some) !keptE.
exact: most_kept_most.
Qed.
(* Mixed multi-path block verification with the local rule accepts a first token at least as often
   as with any other rule for the share. *)
Theorem most_kept_over_any mix n :
  (forall z owed highest uniform, 0 <= (mix z owed highest uniform : R) <= 1) ->
  accepts_some (mixed_multipath_block mix n.+1) <=
  accepts_some (mixed_multipath_block most_kept n.+1).
Proof.
move=> mix01; rewrite (mixed_accepts_some complete p_model q_model rank_strict mix01 some).
by apply: most_kept_first; apply: mix01.
Qed.
(* Mixed multi-path block verification with the local rule accepts a first token at least as often
   as greedy multi-path block verification. *)
Theorem most_kept_over_multipath n :
  accepts_some (multipath_block vocabulary rank p q count n.+1) <=
  accepts_some (mixed_multipath_block most_kept n.+1).
Proof.
rewrite (multipath_accepts_some complete p_model q_model rank_strict some).
by apply: most_kept_first; rewrite ler01 lexx.
Qed.
(* Mixed multi-path block verification with the local rule accepts a first token at least as often
   as block verification of one path. *)
Theorem most_kept_over_block n :
  accepts_some (block vocabulary p q n.+1) <=
  accepts_some (mixed_multipath_block most_kept n.+1).
Proof.
rewrite (block_accepts_some complete p_model q_model rank count).
by apply: most_kept_first; rewrite ler01 lexx.
Qed.
End First.
