(* Extraction: verifiers of the theory as OCaml, for a harness that answers requests.

   Coq writes theory.ml: the programs word for word, over Coq's rationals. What is believed beside
   Coq's extraction, and not proved, stands below: that zarith's rational numbers (GMP's) are Coq's,
   and machine integers its natural numbers, which only count tokens and name them. *)
From mathcomp Require Import all_ssreflect.
From Coq Require Import QArith.
From Coq Require Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZBigInt.
From Draftproof Require Import laws emission rationals sampling.
From Draftproof Require block descent rejection spechub target_first.

(* Tokens are numbers, and everything is given along the drafted paths: the rows of both models at
   every context, and `siblings`, what was drawn after it.

   The naive tree and the greedy draft are left out: they come to one node by several outcomes, each
   with the whole law below it, so that their laws, as lists, double with every position. *)
Section Programs.
Variables (vocabulary : seq nat) (p q : seq nat -> nat -> Q).
Definition emissions := seq ((seq nat * nat) * Q).

Definition law_of_block (path : seq nat) : emissions :=
  @block.verify rationals nat_eqType vocabulary p q path.

Variables (siblings : seq nat -> seq nat) (length : nat).
Definition descend (choose : descent.rule rationals nat_eqType) : emissions :=
  @descent.descend rationals nat_eqType vocabulary p q
    (fun h => ret rationals (siblings (descent.node h))) choose length [::].
Definition law_of_token : emissions := descend (rejection.accept_or_correct vocabulary).
Definition law_of_recursive_rejection (replaced : bool) : emissions :=
  descend (rejection.recursive_rejection vocabulary replaced).
Definition law_of_target_first : emissions := descend (target_first.target_first vocabulary).
Definition law_of_spechub : emissions := descend (spechub.spechub vocabulary).
End Programs.

Definition emission_at (law : emissions) (u v : Q) : option (seq nat * nat) :=
  @sampling.emission_at rationals nat_eqType law u v.

Extraction Blacklist Q Z Int List.
Extract Inductive Q => "Q.t" [ "(fun (above, below) -> Q.make above below)" ].
Extract Inlined Constant plus => "Q.add".
Extract Inlined Constant minus => "Q.sub".
Extract Inlined Constant Qmult => "Q.mul".
Extract Inlined Constant Qdiv => "(fun a b -> if Q.sign b = 0 then Q.zero else Q.div a b)".
Extract Inlined Constant Qle_bool => "Q.leq".
Extract Inlined Constant Qred => "Fun.id". (* zarith's are in lowest terms *)
Extract Inlined Constant eqn => "Int.equal".

Set Warnings "-extraction-opaque-accessed". (* proofs that mathcomp's types carry; none is run *)
Extraction "theory.ml" law_of_block law_of_token law_of_recursive_rejection law_of_target_first
  law_of_spechub emission_at.
