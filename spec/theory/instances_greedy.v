(* Instances of the theorems about greedy block verification and about the acceptance rate.

   Two tokens, two drafted tokens, zeros, disjoint supports after `true`: as in `instances`. Where a
   theorem bounds every verifier, token verification is the verifier that stays below the bound. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent rejection token greedy_block acceptance.
From Draftproof Require Import instances.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---------------------------------------------------------------------------- one iteration *)
Lemma other_path_of : path_of draft 2%N other_path.
Proof.
split=> [|x]; first by apply: law_computed; checked.
by rewrite -(path_law complete draft_model) /probability; apply: equal_laws; checked.
Qed.
Definition greedy2 : law fractions (emission bool) :=
  @greedy_block.greedy_block fractions _ vocabulary target draft 2 other_path.
(* Owed at first is `true` alone; after `false` nothing is owed, and the target stays. *)
Definition left2 : seq bool -> bool -> rat := @modified fractions _ vocabulary target draft 2.

Example greedy_is_law : is_law greedy2.
Proof. exact: (greedy_block_law complete target_model draft_model other_path_of). Qed.
Example greedy_accepts_both : accepts [:: false; true] greedy2 = 2%:Q / 9%:Q.
Proof.
by rewrite (accepts_greedy_block complete target_model draft_model _ other_path_of); computed.
Qed.
Example greedy_accepts_no_more : accepts [:: true; false] greedy2 = 0.
Proof.
by rewrite (accepts_greedy_block complete target_model draft_model _ other_path_of); computed.
Qed.
Example greedy_ends_at_once : ends [::] true greedy2 = 1 / 6%:Q.
Proof.
rewrite (ends_greedy_block complete target_model draft_model _ _ other_path_of).
by rewrite /shared_exactly sum_bool; computed.
Qed.
Example greedy_writes : writes left2 [:: false; true; false; false] greedy2 = 2%:Q / 27%:Q.
Proof.
by rewrite (greedy_block_lossless complete target_model draft_model _ other_path_of); computed.
Qed.
Example greedy_length : shared_length target draft 2 = 7%:Q / 6%:Q.
Proof. by rewrite -(expected_length complete target_model draft_model other_path_of); computed. Qed.
(* 0 + 1/2 + (2/3 - 1/2) * 1 *)
Example greedy_balances : accepts [:: true; false] greedy2 + ends [:: true] false greedy2
  + (2%:Q / 3%:Q - accepts [:: true] greedy2) * left2 [:: true] false = 2%:Q / 3%:Q.
Proof.
have [balances _] := lossless_leaving_balanced left2 target greedy_is_law.
have ok t := greedy_block_lossless complete target_model draft_model t other_path_of.
have text1 : text (N := fractions) target [::] [:: true] = 2%:Q / 3%:Q by computed.
have text2 : text (N := fractions) target [::] [:: true; false] = 2%:Q / 3%:Q by computed.
by have := balances ok [:: true] false; rewrite [rcons _ _]/= text1 text2.
Qed.

(* ------------------------------------------------------------------------- many iterations *)
(* Something else may follow the iteration: two tokens of the target that it leaves. *)
Definition greedy_leaving : iteration fractions bool_eqType := e <- greedy2 ;; ret _ (e, left2).
Lemma greedy_leaving_lossless : lossless_leaving target greedy_leaving.
Proof.
apply/lossless_leaving_one => t.
exact: (greedy_block_lossless complete target_model draft_model t other_path_of).
Qed.
Definition two_more (o : emission bool * (seq bool -> bool -> rat)) : law fractions (seq bool) :=
  path (N := fractions) vocabulary (after (N := fractions) o.2 (tokens o.1)) 2 [::].
Example continued_starts : probability (prefix [:: false; true; false])
  (o <- greedy_leaving ;; rest <- two_more o ;; ret _ (tokens o.1 ++ rest)) = 2%:Q / 9%:Q.
Proof.
rewrite (continued (h := 2) greedy_leaving_lossless); [computed| |by []].
rewrite /greedy_leaving => o o_in s short; have [e [b [_ ret_in ->]]] := in_bind o_in.
case: ret_in => [<-|[]].
have left_model := after_model (tokens e.1) (modified_model complete draft target_model 2).
by rewrite (path_starts complete left_model short); exact/esym/text_after.
Qed.

(* Greedy block verification at first; once something is written, token verification. *)
Definition alternating (written : seq bool) (p : seq bool -> bool -> rat) :
    iteration fractions bool_eqType :=
  let q := after (N := fractions) draft written in
  if written is [::] then
    e <- @greedy_block.greedy_block fractions _ vocabulary p q 2 (path vocabulary q 2 [::]) ;;
    ret _ (e, modified (N := fractions) vocabulary p q 2)
  else e <- @token.token fractions _ vocabulary p q 1 ;; ret _ (e, p).
Lemma draft_after written : is_model (after (N := fractions) draft written).
Proof. exact: (after_model _ draft_model). Qed.
Lemma alternating_law written p : is_model p -> is_law (alternating written p).
Proof.
move=> p_model; rewrite /alternating; have q_model := draft_after written.
case: written q_model => [|a z] q_model; apply: law_bind => [|e]; try exact: law_ret.
  exact: (greedy_block_law complete p_model q_model (drafted_path_of complete q_model 2%N)).
exact: (token_law complete p_model q_model).
Qed.
Lemma alternating_models written p : is_model p ->
  forall o, List.In o (alternating written p) -> is_model o.1.2.
Proof.
move=> p_model o; rewrite /alternating.
case: written => [|a z] o_in; have [e [b [_ ret_in ->]]] := in_bind o_in.
  by case: ret_in => [<-|[]]; exact: (modified_model complete _ p_model).
by case: ret_in => [<-|[]]; exact: p_model.
Qed.
Lemma alternating_lossless written p : is_model p -> lossless_leaving p (alternating written p).
Proof.
move=> p_model; rewrite /alternating; have q_model := draft_after written.
case: written q_model => [|a z] q_model; apply/lossless_leaving_one => t.
  exact: (greedy_block_lossless complete p_model q_model t
    (drafted_path_of complete q_model 2%N)).
exact: (token_lossless complete p_model q_model).
Qed.
Notation six := [:: false; true; false; false; true; false].
Definition decoded3 := decoded (N := fractions) alternating 3 [::] target.
Example alternating_continues :
  expected (fun o => begins_after (N := fractions) o.2 six o.1) decoded3 = 4%:Q / 81%:Q.
Proof.
by rewrite (decoded_lossless alternating_law alternating_models alternating_lossless _ _ _
  target_model); computed.
Qed.
Example alternating_starts :
  probability (fun o => prefix [:: false; true; false] o.1) decoded3 = 2%:Q / 9%:Q.
Proof.
by rewrite (decoded_starts alternating_law alternating_models alternating_lossless _
  target_model); [computed|].
Qed.

(* Greedy block verification, two drafted tokens at first and then one at a time. *)
Definition lengths (written : seq bool) (_ : seq bool -> bool -> rat) : nat :=
  if written is [::] then 2%N else 1%N.
Definition drafts_after (written : seq bool) (_ : seq bool -> bool -> rat) :
    seq bool -> bool -> rat :=
  after (N := fractions) draft written.
Definition drafted_paths (written : seq bool) (p : seq bool -> bool -> rat) :
    law fractions (seq bool) :=
  path (N := fractions) vocabulary (drafts_after written p) (lengths written p) [::].
Lemma drafts_after_model written p : is_model p -> is_model (drafts_after written p).
Proof. by move=> _; apply: draft_after. Qed.
Lemma drafted_paths_of written p : is_model p ->
  path_of (drafts_after written p) (lengths written p) (drafted_paths written p).
Proof. by move=> p_model; apply: (drafted_path_of complete); apply: drafts_after_model. Qed.
Definition greedy_decoded := decoded (N := fractions)
  (greedy_iteration (N := fractions) vocabulary lengths drafted_paths drafts_after) 3 [::] target.
Example greedy_decoded_is_law : is_law greedy_decoded.
Proof.
exact: (greedy_block_decoded_law complete drafts_after_model drafted_paths_of _ _ target_model).
Qed.
Example greedy_decoded_continues :
  expected (fun o => begins_after (N := fractions) o.2 six o.1) greedy_decoded = 4%:Q / 81%:Q.
Proof.
by rewrite (greedy_block_decoded_lossless complete drafts_after_model drafted_paths_of _ _ _
  target_model); computed.
Qed.
Example greedy_decoded_starts :
  probability (fun o => prefix [:: false; true; false] o.1) greedy_decoded = 2%:Q / 9%:Q.
Proof.
by rewrite (greedy_block_decoded_starts complete drafts_after_model drafted_paths_of _
  target_model); [computed|].
Qed.
Example drafted_decoded_starts_three :
  let draft_after written (_ : seq bool -> bool -> rat) := after (N := fractions) draft written in
  let drafted written p := path (N := fractions) vocabulary (draft_after written p) 2 [::] in
  probability (fun o => prefix [:: false; true; false] o.1) (decoded (N := fractions)
    (greedy_iteration (N := fractions) vocabulary (fun _ _ => 2%N) drafted draft_after)
    3 [::] target)
  = 2%:Q / 9%:Q.
Proof.
transitivity (text (N := fractions) target [::] [:: false; true; false]); last by computed.
exact: (@drafted_decoded_starts _ _ vocabulary target draft 2%N 3%N [:: false; true; false] complete
  target_model draft_model isT).
Qed.

(* Token verification alone, which leaves the target as it is. *)
Definition token_after (written : seq bool) (p : seq bool -> bool -> rat) :
    law fractions (emission bool) :=
  @token.token fractions _ vocabulary p (after (N := fractions) draft written) 2.
Lemma token_after_law written p : is_model p -> is_law (token_after written p).
Proof. by move=> p_model; exact: (token_law complete p_model (draft_after written)). Qed.
Lemma token_after_lossless written p : is_model p -> lossless p (token_after written p).
Proof. by move=> p_model t; exact: (token_lossless complete p_model (draft_after written)). Qed.
Definition token_decoded :=
  decoded (N := fractions) (stateless_iteration token_after) 3 [::] target.
Example token_decoded_continues :
  expected (fun o => begins_after (N := fractions) o.2 six o.1) token_decoded = 4%:Q / 81%:Q.
Proof.
by rewrite (stateless_lossless token_after_law token_after_lossless _ _ _ target_model); computed.
Qed.
Example token_decoded_starts :
  probability (fun o => prefix [:: false; true; false] o.1) token_decoded = 2%:Q / 9%:Q.
Proof.
by rewrite (stateless_starts token_after_law token_after_lossless _ target_model); [computed|].
Qed.

(* ------------------------------------------------------------------------- any verifier *)
(* Token verification of a drafted path, with the path that it saw and the target that it leaves. *)
Definition token_outcome : law fractions (seq bool * (emission bool * (seq bool -> bool -> rat))) :=
  x <- @path fractions _ vocabulary draft 2 [::] ;; e <- token_of x ;; ret _ (x, (e, target)).
Lemma token_outcome_law : is_law token_outcome.
Proof. by apply: law_computed; checked. Qed.
Lemma token_outcome_path : path_of draft 2%N (o <- token_outcome ;; ret _ o.1).
Proof.
split=> [|x]; first by apply: law_computed; checked.
by rewrite -(path_law complete draft_model) /probability; apply: equal_laws; checked.
Qed.
Lemma token_outcome_drafted o : possible token_outcome o -> prefix o.2.1.1 o.1.
Proof.
rewrite /token_outcome => can; have [x _ {}can] := possible_bind can.
have [e [w e_in _] {}can] := possible_bind can.
by rewrite (possible_ret can); exact: token_of_drafted e_in.
Qed.
Lemma token_outcome_models o : possible token_outcome o -> is_model o.2.2.
Proof.
rewrite /token_outcome => can; have [x _ {}can] := possible_bind can.
have [e _ {}can] := possible_bind can.
by rewrite (possible_ret can); exact: target_model.
Qed.
Lemma token_outcome_lossless : lossless_leaving target (o <- token_outcome ;; ret _ o.2).
Proof.
move=> t; rewrite -(token_of_lossless t) /writes.
rewrite [LHS]expected_bind [LHS]expected_bind [RHS]expected_bind; apply: eq_expected => x.
by rewrite [LHS]expected_bind; apply: eq_expected => e; rewrite !expected_ret.
Qed.
Example nothing_accepts_more_than : let both := fun o => prefix [:: false; true] o.2.1.1 in
  probability both token_outcome = 1 / 6%:Q /\ probability both token_outcome <= 2%:Q / 9%:Q.
Proof.
move=> both; split; first by computed.
have := nothing_accepts_more complete draft_model token_outcome_law token_outcome_path
  token_outcome_drafted token_outcome_models token_outcome_lossless [:: false; true].
by rewrite [shared _ _ _ _](_ : _ = 2%:Q / 9%:Q); [exact|computed].
Qed.
Example nothing_accepts_longer_than : let length := fun o => (size o.2.1.1)%:R : rat in
  expected length token_outcome = 10%:Q / 9%:Q /\ expected length token_outcome <= 7%:Q / 6%:Q.
Proof.
move=> length; split; first by computed.
rewrite -greedy_length.
exact: (nothing_accepts_longer complete draft_model token_outcome_law token_outcome_path
  token_outcome_drafted token_outcome_models token_outcome_lossless).
Qed.
Example greedy_reaches_both :
  probability (fun o => prefix [:: false; true] o.2.1.1)
    (greedy_outcome vocabulary target draft 2 other_path) = 2%:Q / 9%:Q.
Proof.
by rewrite (greedy_outcome_accepts complete target_model draft_model other_path_of); [computed|].
Qed.
Example greedy_reaches_length :
  expected (fun o => (size o.2.1.1)%:R) (greedy_outcome vocabulary target draft 2 other_path)
  = 7%:Q / 6%:Q.
Proof.
by rewrite (greedy_outcome_length complete target_model draft_model other_path_of) greedy_length.
Qed.
(* Greedy block verification is itself one of these verifiers, which reaches the bound. *)
Notation greedy_seen := (greedy_outcome (R := rat_realFieldType) vocabulary target draft 2
  other_path).
Example greedy_is_one : let both := fun o => prefix [:: false; true] o.2.1.1 in
  probability both greedy_seen = 2%:Q / 9%:Q /\ probability both greedy_seen <= 2%:Q / 9%:Q.
Proof.
move=> both; split; first exact: greedy_reaches_both.
have [seen_law seen_path drafted models ok] :=
  greedy_outcome_is_one complete target_model draft_model other_path_of.
have := nothing_accepts_more complete draft_model seen_law seen_path drafted models ok
  [:: false; true].
by rewrite [shared _ _ _ _](_ : _ = 2%:Q / 9%:Q); [exact|computed].
Qed.
