(* Concrete models on which the hypotheses of the theorems hold, and conclusions computed on them:
   nothing is proved of what cannot be.

   Every theorem of every file is applied somewhere in the files whose names begin with `instances`;
   `make theory` fails if one is not. Wherever a theorem says that something is a number, the number
   is stated. Here: the models, and block and token verification. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent rejection block token greedy_block.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Notation fractions := (field_numbers rat_realFieldType).

(* A test is computed, by the kernel; so are both sides of an equation, and compared. *)
Ltac checked := vm_cast_no_check (erefl true).
Ltac computed := lazymatch goal with |- is_true _ => checked | _ => apply/eqP; checked end.

(* ----------------------------------------------------------------------------------- two tokens *)
Definition vocabulary : seq bool := [:: true; false].
Lemma complete : perm_eq vocabulary (enum [finType of bool]).
Proof. by apply: uniq_perm; rewrite ?enum_uniq // => -[]; rewrite mem_enum. Qed.

(* The target: a third and two thirds; after `true` it writes `false` for sure. *)
Definition target (z : seq bool) (x : bool) : rat :=
  if last false z then (if x then 0 else 1) else (if x then 2%:Q / 3%:Q else 1 / 3%:Q).
(* The draft: even; after `true` it writes `true` for sure, where the target never does. *)
Definition draft (z : seq bool) (x : bool) : rat :=
  if last false z then (if x then 1 else 0) else 1 / 2%:Q.

Lemma sum_bool (f : bool -> rat) : \sum_x f x = f true + f false.
Proof. by rewrite big_bool. Qed.
Lemma target_model : is_model target.
Proof.
move=> z; rewrite /target; split=> [x|]; first by case: last; case: x.
by rewrite sum_bool; case: last.
Qed.
Lemma draft_model : is_model draft.
Proof.
move=> z; rewrite /draft; split=> [x|]; first by case: last; case: x.
by rewrite sum_bool; case: last.
Qed.

(* --------------------------------------------------------------------------------- three tokens *)
Notation three := [finType of 'I_3].
Definition token0 : 'I_3 := @Ordinal 3 0 isT.
Definition token1 : 'I_3 := @Ordinal 3 1 isT.
Definition token2 : 'I_3 := @Ordinal 3 2 isT.
Definition vocabulary3 : seq 'I_3 := [:: token0; token1; token2].
Lemma complete3 : perm_eq vocabulary3 (enum three).
Proof. by apply: uniq_perm; rewrite ?enum_uniq // => -[[|[|[|x]]] lt] //; rewrite mem_enum. Qed.

Definition row3 (a b c : rat) (x : 'I_3) : rat := nth 0 [:: a; b; c] x.
Lemma sum3 (f : 'I_3 -> rat) : \sum_x f x = f token0 + f token1 + f token2.
Proof.
rewrite !big_ord_recl big_ord0 addr0 addrA.
by congr (f _ + f _ + f _); apply: val_inj.
Qed.
Lemma is_row3 (a b c : rat) : [&& 0 <= a, 0 <= b, 0 <= c & a + b + c == 1] -> is_row (row3 a b c).
Proof.
by case/and4P=> a0 b0 c0 /eqP total; split; [case=> -[|[|[|x]]] lt|rewrite sum3].
Qed.

(* Two tokens are as likely in the target, and the third, the draft's likeliest, has no chance. *)
Definition p_row := row3 (1 / 2%:Q) (1 / 2%:Q) 0.
Definition q_row := row3 (1 / 4%:Q) (1 / 4%:Q) (1 / 2%:Q).
Lemma p_is_row : is_row p_row. Proof. exact: is_row3. Qed.
Lemma q_is_row : is_row q_row. Proof. exact: is_row3. Qed.

(* The first token is followed by disjoint supports. *)
Definition sure_row := row3 0 0 1.
Definition two_row := row3 (1 / 2%:Q) (1 / 2%:Q) 0.
Definition target3 (z : seq 'I_3) : 'I_3 -> rat :=
  if last token1 z == token0 then sure_row else p_row.
Definition draft3 (z : seq 'I_3) : 'I_3 -> rat :=
  if last token1 z == token0 then two_row else q_row.
Lemma target3_model : is_model target3.
Proof. by move=> z; rewrite /target3; case: ifP => _; apply: is_row3. Qed.
Lemma draft3_model : is_model draft3.
Proof. by move=> z; rewrite /draft3; case: ifP => _; apply: is_row3. Qed.

(* With no token there is no model, so that no theorem of models speaks of that. *)
Lemma no_model_without_tokens (p : seq 'I_0 -> 'I_0 -> rat) : ~ is_model p.
Proof. by move=> /(_ [::])[_]; rewrite big_ord0. Qed.

(* ------------------------------------------------------------------- laws that are computed *)
Lemma law_computed A (m : law fractions A) :
  all (fun o => 0 <= (o.2 : rat)) m && (expected (fun=> 1) m == 1) -> is_law m.
Proof.
move=> /andP[m0 /eqP m1]; split=> // o; elim: m m0 {m1} => [|b m IH] //= /andP[b0 m0].
by case=> [<-//|]; apply: IH.
Qed.
Lemma in_all A (P : pred A) (m : seq A) o : all P m -> List.In o m -> P o.
Proof. by elim: m => [|b m IH] //= /andP[Pb /IH m_all] [<-//|/m_all]. Qed.
Lemma possible_computed (A : eqType) (m : law fractions A) a :
  has (fun o => (o.1 == a) && ((o.2 : rat) != 0)) m -> possible m a.
Proof.
elim: m => [|[b w] m IH] //= /orP[/andP[/eqP-> w0]|/IH[v v_in v0]].
  by exists w => //; left.
by exists v => //; right.
Qed.
Lemma equal_laws (A : eqType) (m m' : law fractions A) :
  all (fun a => probability (pred1 a) m == probability (pred1 a) m')
    (undup ([seq o.1 | o <- m] ++ [seq o.1 | o <- m'])) ->
  forall f : A -> rat, expected f m = expected f m'.
Proof.
set s := undup _ => /allP same f.
have in_map (l : law fractions A) o : List.In o l -> o.1 \in [seq o.1 | o <- l].
  by elim: l => [|b l IH] //= [<-|/IH o_in]; rewrite in_cons ?eqxx ?o_in ?orbT.
rewrite !(@expected_by_outcome _ _ _ _ s) ?undup_uniq // => [|o o_in|o o_in].
- by apply: eq_big_seq => a /same/eqP ->.
- by rewrite mem_undup mem_cat (in_map m') ?orbT.
by rewrite mem_undup mem_cat (in_map m).
Qed.

(* ------------------------------------------------------------------------- block verification *)
Definition block2 : law fractions (emission bool) :=
  @block.block fractions _ vocabulary target draft 2.

(* After `true`, half of all drafts, the draft has nothing of the target's. *)
Example block_accepts_true : accepts [:: true] block2 = 1 / 2%:Q.
Proof. by rewrite (block_accepts complete target_model draft_model); computed. Qed.
Example block_accepts_both : accepts [:: false; true] block2 = 2%:Q / 9%:Q.
Proof. by rewrite (block_accepts complete target_model draft_model); computed. Qed.
Example block_accepts_no_more : accepts [:: true; false] block2 = 0.
Proof. by rewrite (block_accepts complete target_model draft_model); computed. Qed.
Example block_ends_true : ends [:: true] false block2 = 1 / 2%:Q.
Proof. by rewrite (block_ends complete target_model draft_model); computed. Qed.
Example block_ends_at_once : ends [::] true block2 = 1 / 6%:Q.
Proof. by rewrite (block_ends complete target_model draft_model); computed. Qed.
Example block_balances :
  accepts [:: false; true] block2 + ends [:: false] true block2 = 2%:Q / 9%:Q.
Proof.
by rewrite (block_balanced complete target_model draft_model 2 [:: false] true); computed.
Qed.
Example block_is_law : is_law block2.
Proof. exact: (block_law complete target_model draft_model). Qed.
(* Four tokens, of which an iteration writes three at most: 1/3 * 2/3 * 1 * 1/3. *)
Example block_writes : writes target [:: false; true; false; false] block2 = 2%:Q / 27%:Q.
Proof. by rewrite (block_lossless complete target_model draft_model); computed. Qed.

(* Of a path that is drafted: what is accepted is a beginning of it, and the outcome is a law. *)
Notation verify_path := (@block.verify fractions _ vocabulary target draft).
Example verify_accepts e : List.In e (verify_path [:: false; true]) ->
  e.1.1 \in [:: [::]; [:: false]; [:: false; true]].
Proof.
move/(block.verify_prefix (R := rat_realFieldType)).
by case: e => -[[|[] [|[] [|a u]]] y] w.
Qed.
Example verify_is_law : is_law (verify_path [:: true; true]).
Proof.
apply: (block.verify_law complete target_model draft_model (n := 2)).
by apply: possible_computed; checked.
Qed.
(* 1/2 + 1/3 of one token, 2/9 + 1/9 of two. *)
Example block_length_sum :
  \sum_(i < 2) \sum_(t : i.+1.-tuple bool) kept_mass (N := fractions) target draft t [::] 1
  = 7%:Q / 6%:Q.
Proof. by rewrite -(block.block_length complete target_model draft_model 2); computed. Qed.
(* Block verification of one token accepts one at most, so seven texts decide. *)
Definition block1 : law fractions (emission bool) :=
  @block.block fractions _ vocabulary target draft 1.
Example block_writes_by_horizon : writes target [:: false; true; false] block1 = 2%:Q / 9%:Q.
Proof.
rewrite (horizon (n := 1) (p := target) (block_law complete target_model draft_model 1)).
- by computed.
- by move=> e [w e_in _]; move: e_in; apply: (@in_all _ (fun o => size o.1.1 <= 1)%N); checked.
by move=> [|[] [|[] [|d t]]] //= _; computed.
Qed.

(* A path selected by other means, with the law of the draft's paths. *)
Definition other_path : law fractions (seq bool) :=
  [:: ([:: true; true], 1 / 2%:Q); ([:: false; false], 1 / 4%:Q); ([:: false; true], 1 / 4%:Q)].
Lemma other_path_selects : selects vocabulary draft 2 other_path.
Proof. by apply: equal_laws; checked. Qed.
Definition other_block : law fractions (emission bool) :=
  x <- other_path ;; @block.verify fractions _ vocabulary target draft x.
Example selected_block_length : expected (fun e => (size e.1)%:R) other_block = 7%:Q / 6%:Q.
Proof. by rewrite (selected_block _ _ other_path_selects); computed. Qed.
Example selected_block_is_law : is_law other_block.
Proof.
apply: (selected_block_law complete target_model draft_model) other_path_selects.
by move=> o; apply: (@in_all _ (fun o => 0 <= o.2)); checked.
Qed.
Example selected_block_writes :
  writes target [:: false; true; false; false] other_block = 2%:Q / 27%:Q.
Proof.
by rewrite (selected_block_lossless complete target_model draft_model other_path_selects); computed.
Qed.

(* Without any token, and so without any draft, there is nothing to select and nothing to emit. *)
Example selected_block_of_nothing (p q : seq 'I_0 -> 'I_0 -> rat) :
  expected (fun=> 1) (x <- ret fractions [::] ;; @block.verify fractions _ [::] p q x) = 0.
Proof. by rewrite (@selected_block _ _ [::] p q 0) // => f; rewrite !expected_ret. Qed.

(* ------------------------------------------------------------------------- token verification *)
Definition token_law2 : law fractions (emission bool) :=
  @token.token fractions _ vocabulary target draft 2.

Example token_is_law : is_law token_law2.
Proof. exact: (token_law complete target_model draft_model). Qed.
Example token_writes : writes target [:: false; true; false; false] token_law2 = 2%:Q / 27%:Q.
Proof. by rewrite (token_lossless complete target_model draft_model); computed. Qed.
(* 1/3 * 1/2, where block verification has 2/9. *)
Example token_accepts_both : accepts [:: false; true] token_law2 = 1 / 6%:Q.
Proof. by rewrite (token_accepts complete target_model draft_model); computed. Qed.
Example token_ends_within : ends [:: false] true token_law2 = 1 / 18%:Q.
Proof. by rewrite (token_ends complete target_model draft_model); computed. Qed.

(* A lossless verifier of one path, no better than block verification: token verification again, of
   a path that is drafted already. *)
Definition token_of (x : seq bool) : law fractions (emission bool) :=
  let siblings (h : history bool_eqType) := ret fractions [:: nth true x (size h)] in
  @descend fractions _ vocabulary target draft siblings (accept_or_correct vocabulary)
    (if size x == 2 then 2 else 0)%N [::].
Definition token_of_path : law fractions (emission bool) :=
  x <- @path fractions _ vocabulary draft 2 [::] ;; token_of x.
Lemma token_of_law x : is_law (token_of x).
Proof.
apply: law_computed.
by case: x => [|a [|b [|c x]]]; [checked|checked|case: a; case: b; checked|checked].
Qed.
Lemma token_of_drafted x e : List.In e (token_of x) -> prefix e.1.1 x.
Proof.
apply: (@in_all _ (fun e => prefix e.1.1 x)).
by case: x => [|a [|b [|c x]]]; [checked|checked|case: a; case: b; checked|checked].
Qed.
Lemma token_of_lossless : lossless target token_of_path.
Proof.
move=> t; rewrite -(token_lossless complete target_model draft_model 2 t).
by rewrite /writes; apply: equal_laws; checked.
Qed.
(* With the path that it saw it is a verifier of the kind that block verification is compared to. *)
Definition token_seen : law fractions (seq bool * emission bool) :=
  x <- @path fractions _ vocabulary draft 2 [::] ;; e <- token_of x ;; ret _ (x, e).
Lemma token_verifier : lossless_verifier vocabulary target draft 2 token_seen.
Proof.
apply: (each_path_verifier complete draft_model (v := token_of)).
- by move=> x _; exact: token_of_law.
- by move=> x e _ [w e_in _]; exact: token_of_drafted e_in.
exact: token_of_lossless.
Qed.
Definition token_emits : law fractions (emission bool) := o <- token_seen ;; ret _ o.2.
Example block_optimal_both :
  [/\ accepts [:: false; true] token_emits = 1 / 6%:Q,
      accepts [:: false; true] block2 = 2%:Q / 9%:Q
    & accepts [:: false; true] token_emits <= accepts [:: false; true] block2].
Proof.
split; [computed|computed|].
exact: (block_optimal complete target_model draft_model token_verifier).
Qed.
Example block_longest_both : let length m := expected (fun e => (size e.1)%:R : rat) m in
  [/\ length token_emits = 10%:Q / 9%:Q, length block2 = 7%:Q / 6%:Q
    & length token_emits <= length block2].
Proof.
split; [computed|computed|].
exact: (block_longest complete target_model draft_model token_verifier).
Qed.
(* Block verification is itself one of these verifiers. *)
Notation block_seen := (block_outcome (R := rat_realFieldType) vocabulary target draft 2).
Example block_verifier : lossless_verifier vocabulary target draft 2 block_seen /\
  expected (fun e => (size e.1)%:R) (o <- block_seen ;; ret _ o.2) = 7%:Q / 6%:Q.
Proof.
have [is_one same] := block_is_one complete target_model draft_model 2.
by split; [exact: is_one|rewrite same; computed].
Qed.

(* ------------------------------------------------------- lossless and balanced are the same *)
(* A law that is not lossless does not balance: it emits `true` for sure. *)
Definition always_true : law fractions (emission bool) := ret _ ([::], true).
Example not_balanced : ~ balanced target always_true.
Proof.
move=> /(lossless_balanced target (law_ret _ _))/(_ [:: true])/eqP.
by apply/negP; checked.
Qed.
(* And one that balances is lossless. *)
Example balanced_writes : writes target [:: false; true; false; false] block2 = 2%:Q / 27%:Q.
Proof.
have [_ lossless_of] := lossless_balanced target block_is_law.
by rewrite lossless_of; [computed|exact: (block_balanced complete target_model draft_model)].
Qed.
