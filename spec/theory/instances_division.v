(* Divisions by zero: they occur, and decide nothing.

   In the theorems x / 0 is 0. Here every program that divides by zero runs with numbers in which
   x / 0 is undefined. Where whatever is made of that is undefined as well, so is the outcome: the
   division occurs. Where only zero times it is zero, the law is defined all the same, whatever
   comparisons with it answer: it has no weight. And that law is the one that the reference has (a
   test compares them), as it is where x / 0 is 0. What a program tests before it divides, such as
   the coin of block verification at w = 1 with nothing owed, is never divided. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof Require Import laws emission descent rejection token block greedy_block selection.
From Draftproof Require Import mixed k_seq spechub greedy_draft target_first instances.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.Theory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Numbers that may be undefined; `answer` is that of a comparison with them. *)
Definition both (f : rat -> rat -> rat) (x y : option rat) : option rat :=
  if x is Some a then if y is Some b then Some (f a b) else None else None.
Definition is_zero (x : option rat) : bool := x == Some 0.
Definition partial (zero_absorbs answer : bool) : numbers := @Numbers (option rat) (Some 0) (Some 1)
  (both (fun a b => a + b)) (both (fun a b => a - b))
  (fun x y => if zero_absorbs && (is_zero x || is_zero y) then Some 0
              else both (fun a b => a * b) x y)
  (fun x y => if is_zero y then None else both (fun a b => a / b) x y)
  (fun x y => if x is Some a then if y is Some b then a <= b else answer else answer).

(* Whether a law lists these outcomes with these probabilities, and no other with any. *)
Definition is_known (N : numbers) (value : rat -> N) (equal : N -> N -> bool) (T : eqType)
    (known : seq (T * rat)) (m : law N T) : bool :=
  let weight a := expect (fun b => if b == a then one else zero) m in
  all (fun a => equal (weight a) (value (head 0 [seq o.2 | o <- known & o.1 == a])))
    (undup ([seq o.1 | o <- known] ++ [seq o.1 | o <- m])).

(* A program of any numbers, told how to write a fraction in them. *)
Definition decides_nothing (T : eqType) (known : seq (T * rat))
    (program : forall N : numbers, (rat -> N) -> law N T) : bool :=
  let is_same answer := is_known (N := partial true answer) Some
    (fun x y => x == y :> option rat) known (program (partial true answer) Some) in
  [&& has (fun o => o.2 == None :> option rat) (program (partial false false) Some),
      is_same true, is_same false
    & is_known (N := fractions) id (fun x y => x == y :> rat) known (program fractions id)].

(* ------------------------------------------------------------------- three tokens, one position *)
(* The draft has two of the target's three tokens; then both are the same row. *)
Notation tokens3 := (ordinal_eqType 3).
Definition known_half : seq (emission 'I_3 * rat) := [::
  (([::], token2), 1 / 2%:Q);
  (([:: token0], token0), 1 / 16%:Q); (([:: token0], token1), 1 / 16%:Q);
  (([:: token0], token2), 1 / 8%:Q);
  (([:: token1], token0), 1 / 16%:Q); (([:: token1], token1), 1 / 16%:Q);
  (([:: token1], token2), 1 / 8%:Q)].
Definition known_same : seq (emission 'I_3 * rat) := [::
  (([:: token0], token0), 1 / 4%:Q); (([:: token0], token1), 1 / 4%:Q);
  (([:: token1], token0), 1 / 4%:Q); (([:: token1], token1), 1 / 4%:Q)].

Section Models.
Variables (N : numbers) (number : rat -> N).
Definition model_of_row (r : 'I_3 -> rat) : model N tokens3 := fun _ x => number (r x).
Definition model_of (p : seq bool -> bool -> rat) : model N bool_eqType :=
  fun z x => number (p z x).
Definition token_program (p q : 'I_3 -> rat) :=
  token.token vocabulary3 (model_of_row p) (model_of_row q) 1.
Definition block_program (p q : 'I_3 -> rat) :=
  block.block vocabulary3 (model_of_row p) (model_of_row q) 1.
Definition tree_program (scheme : row N tokens3 -> nat -> law N (seq 'I_3))
    (choose : rule N tokens3) (width : nat) (p q : 'I_3 -> rat) : law N (emission 'I_3) :=
  descend vocabulary3 (model_of_row p) (model_of_row q)
    (growing scheme (fun=> width) (model_of_row q)) choose 1 [::].
Definition rank3 (p q : 'I_3 -> rat) : seq 'I_3 -> 'I_3 -> nat :=
  in_order (by_ratio vocabulary3 (model_of_row p) (model_of_row q)).
End Models.
Arguments token_program {N}. Arguments block_program {N}. Arguments rank3 {N}.
Arguments model_of {N}. Arguments model_of_row {N}.

(* p / q at the token that is never drafted; the rest of p is not void. *)
Example token_undrafted :
  decides_nothing known_half (fun N number => token_program number q_row p_row).
Proof. by checked. Qed.
(* The same, and the rest of p, which is void, normalised: 0 / 0. *)
Example token_void : decides_nothing known_same (fun N number => token_program number p_row p_row).
Proof. by checked. Qed.
(* w p / q at the token that is never drafted. *)
Example block_undrafted :
  decides_nothing known_half (fun N number => block_program number q_row p_row).
Proof. by checked. Qed.
(* The same, and the excess, void as w = 1, normalised: 0 / 0. *)
Example block_void : decides_nothing known_same (fun N number => block_program number p_row p_row).
Proof. by checked. Qed.
(* p / 0 at siblings that have no weight. Two are asked for, and the draft has one token. *)
Definition known_sure : seq (emission 'I_3 * rat) := [::
  (([::], token0), 1 / 4%:Q); (([::], token1), 1 / 4%:Q);
  (([:: token2], token0), 1 / 8%:Q); (([:: token2], token1), 1 / 8%:Q);
  (([:: token2], token2), 1 / 4%:Q)].
Example rejection_exhausted : decides_nothing known_sure (fun N number =>
  tree_program number (@draw_siblings N tokens3 vocabulary3 false)
    (@recursive_rejection N tokens3 vocabulary3 false) 2 q_row sure_row).
Proof. by checked. Qed.
(* p / (rho q) at the token that is never drafted; the rest of p, void, normalised: 0 / 0. The
   factor is the reference's, 1. *)
Example k_seq_void : decides_nothing known_same (fun N number =>
  tree_program number (@draw_iid N tokens3 vocabulary3)
    (@k_seq N tokens3 vocabulary3 (fun _ _ _ => number 1)) 2 p_row p_row).
Proof. by checked. Qed.
(* q(hub) * 0 / (1 - q(hub)), where the draft is sure of the hub. *)
Example spechub_sure : decides_nothing known_sure (fun N number =>
  tree_program number (@draw_hub N tokens3 vocabulary3)
    (@spechub.spechub N tokens3 vocabulary3) 2 q_row sure_row).
Proof. by checked. Qed.
(* p / 0 at a last sibling that has no weight. *)
Example greedy_draft_again : decides_nothing known_half (fun N number =>
  tree_program number (@draw_greedy N tokens3 vocabulary3)
    (@greedy_draft.greedy_draft N tokens3 vocabulary3) 2 q_row p_row).
Proof. by checked. Qed.
(* p / q for a first sibling that is never drafted. Target first divides by the total of p alone. *)
Example naive_undrafted : decides_nothing known_half (fun N number =>
  tree_program number (@draw_iid N tokens3 vocabulary3)
    (@naive_tree N tokens3 vocabulary3) 2 q_row p_row).
Proof. by checked. Qed.
(* w p / q for the selected path's law q, at the token that is never selected. *)
Example multipath_unselected : decides_nothing known_half (fun N number =>
  multipath_block vocabulary3 (rank3 number q_row p_row) (model_of_row number q_row)
    (model_of_row number p_row) 2 1).
Proof. by checked. Qed.
(* The same for mixed selection, on two tokens, as it takes Coq longer: the target is even, and the
   draft is sure of `true`. *)
Definition even (z : seq bool) : bool -> rat := draft [::].
Definition sure (z : seq bool) : bool -> rat := draft [:: true].
Definition known_even : seq (emission bool * rat) := [::
  (([::], false), 1 / 2%:Q); (([:: true], true), 1 / 4%:Q); (([:: true], false), 1 / 4%:Q)].
Example mixed_unselected : decides_nothing known_even (fun N number =>
  mixed_multipath_block vocabulary
    (in_order (by_ratio vocabulary (model_of number even) (model_of number sure)))
    (@most_kept_next N bool_eqType vocabulary) (model_of number even) (model_of number sure) 2 1).
Proof. by checked. Qed.

(* ------------------------------------------------------------------- two tokens, two positions *)
(* As in `instances`: below `true` the draft has nothing of the target's. *)
Definition known_block : seq (emission bool * rat) := [::
  (([::], true), 1 / 6%:Q); (([:: true], false), 1 / 2%:Q);
  (([:: false; true], false), 2%:Q / 9%:Q);
  (([:: false; false], true), 2%:Q / 27%:Q); (([:: false; false], false), 1 / 27%:Q)].
Definition known_multipath : seq (emission bool * rat) := [::
  (([::], false), 1 / 12%:Q); (([:: true], false), 2%:Q / 3%:Q);
  (([:: false], false), 1 / 48%:Q); (([:: false; true], false), 1 / 6%:Q);
  (([:: false; false], true), 1 / 24%:Q); (([:: false; false], false), 1 / 48%:Q)].
(* w p / q at the tokens that are never drafted after `true`; at `false` the excess is void, and
   normalised: 0 / 0. *)
Example block_disjoint : decides_nothing known_block (fun N number =>
  block.block vocabulary (model_of number target) (model_of number draft) 2).
Proof. by checked. Qed.
(* w p / q again. Where nothing is owed, nothing is divided: the own row stays. *)
Example greedy_block_disjoint : decides_nothing known_block (fun N number =>
  greedy_block.greedy_block vocabulary (model_of number target) (model_of number draft) 2
    (path vocabulary (model_of number draft) 2 [::])).
Proof. by checked. Qed.
(* w p / q, with the law of the highest of two paths for q. *)
Example multipath_disjoint : decides_nothing known_multipath (fun N number =>
  multipath_block vocabulary
    (in_order (by_ratio vocabulary (model_of number target) (model_of number draft)))
    (model_of number target) (model_of number draft) 2 2).
Proof. by checked. Qed.
