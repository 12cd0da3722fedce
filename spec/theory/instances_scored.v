(* Instances of the theorems about scored selection from several drafts.

   Two drafts of two tokens, over two tokens with zeros and disjoint supports, as in `instances`.
   At first the target wants `true` with 2/3, of which two drafts have 3/4: the scores are shared
   out so that the selected path has exactly what the target wants, half of them without regard to
   the token. After `true` the draft has nothing of the target's. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent block selection instances scored.
From Draftproof Require greedy_block.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Notation kept := (@least fractions).
Notation all_of_it := (@all_of_it fractions).

Definition scored2 : seq bool -> bool -> rat := @scored fractions _ vocabulary kept target draft 2.
Definition scores2 : seq bool -> scores fractions :=
  @scores_of fractions _ vocabulary kept target draft 2.
Definition smallest2 : law fractions (seq bool) :=
  @scored.selected fractions _ vocabulary kept target draft 2 2.
Definition scored_block2 : law fractions (emission bool) :=
  @scored_multipath_block fractions _ vocabulary target draft 2 2.
Definition scored_greedy2 : law fractions (emission bool) :=
  @scored_greedy_block fractions _ vocabulary target draft 2 2.

(* ------------------------------------------------------------------------- the selected path *)
Definition first_split : division fractions bool_eqType :=
  @split fractions _ vocabulary 2 (uniform fractions) 1 (target [::]) (draft [::]).
Example aim_of_true : value 2 (after first_split true) = 2%:Q / 3%:Q.
Proof.
have reached := @aim_reached _ _ _ complete 2 (uniform fractions) 1 (target [::]) (draft [::]).
by rewrite -(reached ler01 (draft_model [::]) isT isT true); computed.
Qed.
Example scored2_model : is_model scored2.
Proof. exact: (scored_model complete target_model draft_model 2 (@least_ge0 _)). Qed.
(* After `true` all that is drafted is `true`. *)
Example scored2_sure : scored2 [:: true] true = 1.
Proof. by computed. Qed.
Example smallest2_selects : probability (pred1 [:: false; true]) smallest2 = 2%:Q / 9%:Q.
Proof.
rewrite /probability (selected_scored complete target_model draft_model (isT : (0 < 2)%N)
  (@least_ge0 _)).
by computed.
Qed.
Example smallest2_is_law : is_law smallest2.
Proof.
exact: (selected_scored_law complete target_model draft_model (isT : (0 < 2)%N) (@least_ge0 _)).
Qed.
Example smallest2_starts : probability (prefix [:: true]) smallest2 = 2%:Q / 3%:Q.
Proof.
rewrite (selected_scored_starts complete target_model draft_model (isT : (0 < 2)%N) (@least_ge0 _)).
by computed.
Qed.

(* The general theorem of selection by scores, with these. *)
Definition by_scores : law fractions (seq bool) :=
  xs <- independent (path (N := fractions) vocabulary draft 2 [::]) 2 ;; select scores2 xs.
Example fairly_selects : probability (pred1 [:: false; true]) by_scores = 2%:Q / 9%:Q.
Proof.
rewrite /probability (selected_fairly complete draft_model (isT : (0 < 2)%N)
  (scores_root vocabulary target draft 2 kept)
  (scores_proper complete target_model draft_model 2 (@least_ge0 _))
  (@scores_shared _ _ _ complete _ _ target_model draft_model 2 _ (@least_ge0 _))
  (scores_drafted complete target_model draft_model 2 (@least_ge0 _))
  scored2_model (scored_next complete target_model draft_model 2 (@least_ge0 _))).
by computed.
Qed.
Example fairly_is_law : is_law by_scores.
Proof.
exact: (selected_fairly_law complete draft_model (isT : (0 < 2)%N)
  (scores_root vocabulary target draft 2 kept)
  (scores_proper complete target_model draft_model 2 (@least_ge0 _))
  (scores_drafted complete target_model draft_model 2 (@least_ge0 _))).
Qed.

(* -------------------------------------------------------------------------- block verification *)
Example scored_block_accepts_first : probability (prefix [:: true] \o fst) scored_block2
  = 2%:Q / 3%:Q.
Proof.
by rewrite /probability (scored_multipath_block_outcome complete target_model draft_model
  (isT : (0 < 2)%N)); computed.
Qed.
Example scored_block_accepts_both : accepts [:: false; true] scored_block2 = 2%:Q / 9%:Q.
Proof. by rewrite (scored_multipath_block_accepts complete target_model draft_model); computed. Qed.
Example scored_block_known : accepts [:: false; true] scored_block2 = 2%:Q / 9%:Q.
Proof.
by rewrite (scored_multipath_block_known complete target_model draft_model (isT : (0 < 2)%N));
  computed.
Qed.
(* The same, from the accepted text before it. *)
Example scored_block_next : accepts [:: false; true] scored_block2 = Num.min
  (accepts [:: false] scored_block2 * target [:: false] true)
  (probability (prefix [:: false; true]) smallest2).
Proof.
exact: (scored_multipath_block_next complete target_model draft_model (isT : (0 < 2)%N)
  (z := [:: false]) true (isT : (1 < 2)%N)).
Qed.
(* Where the draft has nothing of the target's, all that is left is the target's. *)
Example scored_block_ends_within : ends [:: true] false scored_block2 = 2%:Q / 3%:Q.
Proof. by rewrite (scored_multipath_block_ends complete target_model draft_model); computed. Qed.
Example scored_block_is_law : is_law scored_block2.
Proof. exact: (scored_multipath_block_law complete target_model draft_model). Qed.
Example scored_block_writes :
  writes target [:: false; true; false; false] scored_block2 = 2%:Q / 27%:Q.
Proof.
by rewrite (scored_multipath_block_lossless complete target_model draft_model); computed.
Qed.
Example scored_block_balances :
  accepts [:: false; true] scored_block2 + ends [:: false] true scored_block2 = 2%:Q / 9%:Q.
Proof.
have balances := scored_multipath_block_balanced complete target_model draft_model
  (isT : (0 < 2)%N) 2.
rewrite (balances [:: false] true).
by rewrite (scored_multipath_block_accepts complete target_model draft_model); computed.
Qed.

(* ------------------------------------------------------------------- greedy block verification *)
Lemma two_paths : (0 < 2)%N. Proof. by []. Qed.
Definition smallest_greedy2 : law fractions (seq bool) :=
  @scored.selected fractions _ vocabulary all_of_it target draft 2 2.

Example scored_greedy_is_law : is_law scored_greedy2.
Proof. exact: (scored_greedy_block_law complete target_model draft_model two_paths _). Qed.
Example scored_greedy_known :
  (@known fractions _ vocabulary all_of_it target draft 2 [:: false; true]).2 = 2%:Q / 9%:Q.
Proof. by rewrite scored_greedy_block_known; computed. Qed.
Example scored_greedy_accepts_both : accepts [:: false; true] scored_greedy2 = 2%:Q / 9%:Q.
Proof.
rewrite (scored_greedy_block_accepts complete target_model draft_model two_paths).
rewrite (selected_scored_starts complete target_model draft_model two_paths (@all_of_it_ge0 _)).
by computed.
Qed.
Example scored_greedy_ends_within : ends [:: true] false scored_greedy2 = 2%:Q / 3%:Q.
Proof.
rewrite (scored_greedy_block_ends complete target_model draft_model two_paths) big_bool.
rewrite !(scored_greedy_block_accepts complete target_model draft_model two_paths).
rewrite !(selected_scored_starts complete target_model draft_model two_paths (@all_of_it_ge0 _)).
by computed.
Qed.
Example scored_greedy_writes :
  writes (@greedy_block.modified fractions _ vocabulary target
      (@scored fractions _ vocabulary all_of_it target draft 2) 2)
    [:: false; true; false; false] scored_greedy2 = 2%:Q / 27%:Q.
Proof.
by rewrite (scored_greedy_block_lossless complete target_model draft_model two_paths); computed.
Qed.
Example scored_greedy_length : expected (fun e => (size e.1)%:R) scored_greedy2 =
  \sum_(k < 2) \sum_(x : k.+1.-tuple bool) Num.min (text (N := fractions) target [::] x)
    (probability (prefix (x : seq bool)) smallest_greedy2).
Proof. exact: (scored_greedy_block_length complete target_model draft_model two_paths _). Qed.

(* The target tosses a coin, and the draft writes `true` with 1/4. Verified greedily, 231/128 tokens
   are accepted, and as a block 227/128. *)
Definition even (_ : seq bool) (_ : bool) : rat := 1 / 2%:Q.
Definition uneven (_ : seq bool) (x : bool) : rat := if x then 1 / 4%:Q else 3%:Q / 4%:Q.
Lemma even_model : is_model even.
Proof. by move=> z; split=> [x|]; [case: x|rewrite sum_bool; computed]. Qed.
Lemma uneven_model : is_model uneven.
Proof. by move=> z; split=> [x|]; [case: x|rewrite sum_bool; computed]. Qed.
Lemma sum_texts (f : seq bool -> rat) : \sum_(k < 2) \sum_(x : k.+1.-tuple bool) f x =
  f [:: true] + f [:: false] + (f [:: true; true] + f [:: true; false] +
    (f [:: false; true] + f [:: false; false])).
Proof.
rewrite !big_ord_recl big_ord0 addr0; congr (_ + _).
  rewrite (reindex (fun a => [tuple a])) ?sum_bool //.
  exists (fun x => thead x) => [a _|x _]; first by [].
  by apply: val_inj; case: x => -[|a [|b x]].
rewrite (reindex (fun e : bool * bool => [tuple e.1; e.2])) /=.
  by rewrite -(pair_big predT predT (fun a b => f [:: a; b])) /= sum_bool !sum_bool.
exists (fun x => (thead x, thead (behead_tuple x))) => [[a b] _|x _]; first by [].
by apply: val_inj; case: x => -[|a [|b [|c x]]].
Qed.
Example scored_block_length :
  expected (fun e => (size e.1)%:R) (@scored_multipath_block fractions _ vocabulary even uneven 2 2)
  = 227%:Q / 128%:Q.
Proof.
rewrite (scored_multipath_block_outcome complete even_model uneven_model two_paths).
rewrite (block.block_length complete even_model
  (scored_model complete even_model uneven_model 2 (@least_ge0 _))).
by rewrite (sum_texts (fun x => kept_mass (N := fractions) _ _ x [::] 1)); computed.
Qed.
Example scored_greedy_is_longer :
  expected (fun e => (size e.1)%:R) (@scored_greedy_block fractions _ vocabulary even uneven 2 2)
  = 231%:Q / 128%:Q.
Proof.
rewrite (scored_greedy_block_length complete even_model uneven_model two_paths).
rewrite (sum_texts (fun x => Num.min (text (N := fractions) even [::] x)
  (probability (prefix x) (@scored.selected fractions _ vocabulary all_of_it even uneven 2 2)))).
rewrite !(selected_scored_starts complete even_model uneven_model two_paths (@all_of_it_ge0 _)).
by computed.
Qed.

(* Two iterations leave the target's law whole, and three write its first three tokens. *)
Section Decoded.
Let draft_after written := greedy_block.after (N := fractions) draft written.
Let law_of written p := @scored fractions _ vocabulary all_of_it p (draft_after written) 2.
Let path written p := @scored.selected fractions _ vocabulary all_of_it p (draft_after written) 2 2.
Let decoded count := greedy_block.decoded (N := fractions)
  (greedy_block.greedy_iteration (N := fractions) vocabulary (fun _ _ => 2%N) path law_of)
  count [::] target.
Example scored_greedy_goes_on : expected
  (fun o => greedy_block.begins_after (N := fractions) o.2 [:: false; true; false; false] o.1)
  (decoded 2) = 2%:Q / 27%:Q.
Proof.
rewrite (scored_greedy_decoded_lossless 2 2 _ complete target_model draft_model two_paths).
by computed.
Qed.
Example scored_greedy_starts :
  probability (fun o => prefix [:: false; true; false] o.1) (decoded 3) = 2%:Q / 9%:Q.
Proof.
have starts := scored_greedy_decoded_starts 2 (iterations := 3) (t := [:: false; true; false])
  complete target_model draft_model two_paths isT.
by rewrite starts; computed.
Qed.
End Decoded.
