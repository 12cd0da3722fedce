(* The verifiers of the theory, asked by draftproof over stdin and stdout (spec, chapter 13).

       cd spec && python -m theory harness
       draftproof certify --harness '../build/theory/harness block'

   What a verifier does is in theory.ml, which Coq writes from the programs that the theorems are
   about. This file is the protocol: it reads rows as the rational numbers that they are, exactly,
   has the program's law of the emission, and takes from it the emission at two uniform numbers. *)

exception Refused of string

let refuse format = Printf.ksprintf (fun message -> raise (Refused message)) format

(* --- the verifiers ---------------------------------------------------------------------------- *)

(* One row of a request: the drafted paths [K][L], and the rows of both models along each of them,
   the draft's [K][L][V] and the target's [K][L + 1][V]. *)
type row = {
  vocabulary : int;
  length : int;
  paths : int list array;
  draft : Q.t array array array;
  target : Q.t array array array;
}

let rec goes_through path context =
  match (path, context) with
  | _, [] -> true
  | token :: path, wanted :: context -> token = wanted && goes_through path context
  | [], _ -> false

let paths_through row context =
  let all = List.init (Array.length row.paths) Fun.id in
  List.filter (fun k -> goes_through row.paths.(k) context) all

(* A model as the programs ask for it: the row at a context is the same along all its paths. *)
let model row along context =
  let own = along.(List.hd (paths_through row context)).(List.length context) in
  fun token -> own.(token)

let siblings row context =
  let depth = List.length context in
  List.map (fun k -> List.nth row.paths.(k) depth) (paths_through row context)

(* A program's law, given the vocabulary, the target, the draft, the tree and its depth. *)
type program =
  int list ->
  (int list -> int -> Q.t) ->
  (int list -> int -> Q.t) ->
  (int list -> int list) ->
  int ->
  Theory.emissions

let rec the_path siblings length context =
  if List.length context = length then context
  else the_path siblings length (context @ [ List.hd (siblings context) ])

let block : program =
 fun vocabulary p q siblings length ->
  Theory.law_of_block vocabulary p q (the_path siblings length [])

let recursive_rejection ~replaced : program =
 fun vocabulary p q siblings length ->
  Theory.law_of_recursive_rejection vocabulary p q siblings length replaced

(* By name: the algorithm, how its siblings are drawn, the most drafts, and the program. *)
let verifiers : (string * (string * string * int * program)) list =
  [
    ("block", ("block", "iid", 1, block));
    ("token", ("token", "iid", 1, Theory.law_of_token));
    ("rejection-iid", ("recursive_rejection", "iid", 4, recursive_rejection ~replaced:true));
    ( "rejection-without-replacement",
      ("recursive_rejection", "without_replacement", 4, recursive_rejection ~replaced:false) );
    ("target-first", ("target_first", "iid", 4, Theory.law_of_target_first));
    ("spechub", ("spechub", "hub", 2, Theory.law_of_spechub));
  ]

(* The number of accepted tokens, a path that they lie on, and the next token. *)
let emission (program : program) row ~u ~v =
  let law =
    program
      (List.init row.vocabulary Fun.id)
      (model row row.target) (model row row.draft) (siblings row) row.length
  in
  match Theory.emission_at0 law u v with
  | Some (accepted, next) -> (List.length accepted, List.hd (paths_through row accepted), next)
  | None -> refuse "what was drafted cannot have been drawn from these rows"

(* --- the protocol: reading JSON --------------------------------------------------------------- *)

type json =
  | Word (* null, true or false *)
  | Number of int
  | Text of string
  | List of json list
  | Object of (string * json) list

(* A line that is no JSON ends the program: draftproof tells its last words. *)
let json_of line =
  let at = ref 0 in
  let fail wanted = failwith (Printf.sprintf "no JSON: %s belongs at character %d" wanted !at) in
  let rec peek () =
    if !at = String.length line then '\000'
    else if line.[!at] = ' ' then (incr at; peek ())
    else line.[!at]
  in
  let expect wanted =
    if peek () <> wanted then fail (String.make 1 wanted);
    incr at
  in
  (* No string that we are sent has anything escaped in it. *)
  let text () =
    expect '"';
    match String.index_from_opt line !at '"' with
    | None -> fail "the end of a string"
    | Some last ->
        let found = String.sub line !at (last - !at) in
        at := last + 1;
        found
  in
  let is_part c = match c with '0' .. '9' | 'a' .. 'z' | '-' -> true | _ -> false in
  let rec value () =
    match peek () with
    | '{' -> Object (members '}' (fun () -> let key = text () in expect ':'; (key, value ())))
    | '[' -> List (members ']' value)
    | '"' -> Text (text ())
    | _ -> (
        let first = !at in
        while !at < String.length line && is_part line.[!at] do incr at done;
        match String.sub line first (!at - first) with
        | "null" | "true" | "false" -> Word
        | word -> (
            match int_of_string_opt word with
            | Some number -> Number number
            | None -> fail "an integer"))
  and members : 'a. char -> (unit -> 'a) -> 'a list =
   fun last one ->
    incr at;
    if peek () = last then (incr at; [])
    else
      let rec others found =
        if peek () = ',' then (incr at; others (one () :: found))
        else (expect last; List.rev found)
      in
      others [ one () ]
  in
  value ()

let member name = function Object members -> List.assoc_opt name members | _ -> None
let integer = function Some (Number number) -> number | _ -> 0

(* --- the protocol: reading tensors ------------------------------------------------------------ *)

let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
let value_of_digit = Array.init 256 (fun c -> String.index_opt digits (Char.chr c))

let bytes_of_base64 text =
  let found = Buffer.create (String.length text / 4 * 3) in
  let take (bits, count) digit =
    match value_of_digit.(Char.code digit) with
    | None -> (bits, count) (* the padding *)
    | Some value ->
        let bits = ((bits lsl 6) lor value) land 0xffff and count = count + 6 in
        if count < 8 then (bits, count)
        else (
          Buffer.add_uint8 found ((bits lsr (count - 8)) land 0xff);
          (bits, count - 8))
  in
  ignore (Seq.fold_left take (0, 0) (String.to_seq text));
  Buffer.to_bytes found

(* The elements of a tensor, of 8 bytes each, in row-major order. It must have this shape. *)
let elements within name shape of_bits =
  let tensor = member name within in
  let side = function Number side -> side | _ -> -1 in
  match (Option.bind tensor (member "shape"), Option.bind tensor (member "data")) with
  | Some (List sides), Some (Text data) when List.map side sides = shape ->
      let data = bytes_of_base64 data in
      let count = List.fold_left ( * ) 1 shape in
      if Bytes.length data <> 8 * count then refuse "%s has not as many elements as its shape" name;
      Array.init count (fun i -> of_bits (Bytes.get_int64_le data (8 * i)))
  | _ -> refuse "%s has the wrong shape or is not there" name

let parts size all = Array.init (Array.length all / size) (fun i -> Array.sub all (i * size) size)

(* --- the protocol: checking ------------------------------------------------------------------- *)

(* A row as the law that it stands for. Every double is a rational number; that the sum of a row is
   1 up to rounding is checked, and then made so. *)
let law_of name row =
  let probability x =
    if not (x >= 0. && x < infinity) then refuse "%s: %g is no probability" name x;
    Q.of_float x
  in
  let exact = Array.map probability row in
  let sum = Array.fold_left Q.add Q.zero exact in
  (* What a softmax in float32 is off by, at most: one rounding for every token. *)
  let allowed = Q.of_float (Float.ldexp (float_of_int (Array.length row)) (-24)) in
  if Q.gt (Q.abs (Q.sub sum Q.one)) allowed then
    refuse "%s: a row sums to %g, not to 1" name (Q.to_float sum);
  if Q.equal sum Q.one then exact else Array.map (fun x -> Q.div x sum) exact

let check_drafted vocabulary tokens rows =
  let check place token =
    if token < 0 || token >= vocabulary then
      refuse "drafted token %d is not in 0..%d" token (vocabulary - 1);
    if Q.equal rows.(place).(token) Q.zero then refuse "drafted token %d has probability 0" token
  in
  Array.iteri check tokens

(* --- the protocol: answering ------------------------------------------------------------------ *)

let declaration name (algorithm, scheme, drafts, _) =
  let named =
    Printf.sprintf {|"name": "theory-%s", "version": "1.0", "algorithm": "%s"|} name algorithm
  and drawn = Printf.sprintf {|"scheme": "%s", "max_drafts": %d|} scheme drafts
  and wanted = {|"tensors": "base64", "dtype": "float64"|}
  and noise = {|"noise": {"accepted": ["uniform"], "token": ["uniform"]}|} in
  Printf.sprintf {|{"declaration": {"protocol": 1, %s, %s, %s, %s}}|} named drawn wanted noise

(* The emissions of all rows; invalid input is refused. *)
let emissions (_, _, most_drafts, program) request =
  let size name = integer (member name request) in
  let count = size "rows" and drafts = size "drafts" in
  let length = size "length" and vocabulary = size "vocabulary" in
  if min (min count drafts) (min length vocabulary) < 1 then refuse "there is nothing to verify";
  if drafts > most_drafts then refuse "draft_tokens has %d drafts, not %d" drafts most_drafts;
  let laws name depths =
    let shape = [ count; drafts; depths; vocabulary ] in
    let rows = parts vocabulary (elements request name shape Int64.float_of_bits) in
    parts drafts (parts depths (Array.map (law_of name) rows))
  in
  let token bits = Option.value (Int64.unsigned_to_int bits) ~default:(-1) in
  let tokens = elements request "draft_tokens" [ count; drafts; length ] token in
  let tokens = parts drafts (parts length tokens) in
  let draft = laws "draft_probs" length and target = laws "target_probs" (length + 1) in
  let check b k path = check_drafted vocabulary path draft.(b).(k) in
  Array.iteri (fun b paths -> Array.iteri (check b) paths) tokens;
  let noise = Option.value (member "noise" request) ~default:Word in
  (* A generator that rounds may say 1. *)
  let of_bits bits = Q.of_float (Float.min (Int64.float_of_bits bits) (Float.pred 1.)) in
  let uniform name = elements noise name [ count ] of_bits in
  let u = uniform "accepted" and v = uniform "token" in
  let verified b =
    let paths = Array.map Array.to_list tokens.(b) in
    let row = { vocabulary; length; paths; draft = draft.(b); target = target.(b) } in
    emission program row ~u:u.(b) ~v:v.(b)
  in
  List.init count verified

let answer verifier request =
  let sequence = integer (member "sequence" request) in
  match emissions verifier request with
  | found ->
      let column name of_one =
        let numbers = List.map (fun each -> string_of_int (of_one each)) found in
        Printf.sprintf {|"%s": [%s]|} name (String.concat ", " numbers)
      in
      Printf.sprintf {|{"result": {"sequence": %d, %s, %s, %s}}|} sequence
        (column "accepted_length" (fun (accepted, _, _) -> accepted))
        (column "path" (fun (_, path, _) -> path))
        (column "next_token" (fun (_, _, next) -> next))
  | exception Refused message ->
      (* No message has a quote or a backslash in it, which JSON would want escaped. *)
      Printf.sprintf {|{"error": {"sequence": %d, "message": "%s"}}|} sequence message

let rec converse name verifier =
  match input_line stdin with
  | exception End_of_file -> ()
  | line ->
      let message = json_of line in
      let said =
        match (member "start" message, member "verify" message) with
        | Some _, _ -> Some (declaration name verifier)
        | None, Some request -> Some (answer verifier request)
        | None, None -> None (* stop *)
      in
      let say said =
        print_endline said; (* and flush it *)
        converse name verifier
      in
      Option.iter say said

(* The programs go down lists by recursion: 262,144 tokens need more than the usual stack of 8 MB.
   So the harness starts itself again, with all that it may have. *)
let with_all_the_stack () =
  let mark = "THEORY_HARNESS_STACK" in
  if Sys.getenv_opt mark = None then (
    Unix.putenv mark "all";
    let again = {|ulimit -s "$(ulimit -H -s)"; exec "$0" "$@"|} in
    let own = Array.sub Sys.argv 1 (Array.length Sys.argv - 1) in
    Unix.execv "/bin/sh" (Array.append [| "sh"; "-c"; again; Sys.executable_name |] own))

let () =
  match Array.to_list Sys.argv with
  | [ _; name ] when List.mem_assoc name verifiers ->
      with_all_the_stack ();
      converse name (List.assoc name verifiers)
  | _ ->
      prerr_endline ("usage: harness " ^ String.concat "|" (List.map fst verifiers));
      exit 2
