/* Token verification, asked by draftproof over stdin and stdout (spec, chapter 13).
 *
 *     cc -std=c11 -O2 -o token token.c
 *     draftproof certify --harness ./token
 *
 * All arithmetic is in double, and so are the rows and the noise that it asks for. With --seeded it
 * asks for no noise, and makes its own from the seed of each request.
 *
 * Copy it, and put your own verifier in the place of verify(): the rest is the protocol.
 */
#define _POSIX_C_SOURCE 200809L /* getline */

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensors are little-endian: swap the bytes of every element in tensor_of()"
#endif

/* --- the verifier ---------------------------------------------------------------------------- */

/* One row: L drafted tokens, the draft's rows q [L, V] and the target's p [L+1, V]; coins [L] and u
 * are uniform on [0, 1). */
typedef struct {
    long L, V;
    const int64_t *drafted;
    const double *q, *p, *coins;
    double u;
} Row;

typedef struct {
    long accepted, next;
} Emission;

/* How much more of a token p wants than q gives; all of p where q is NULL. */
static double excess(const double *p, const double *q, long token)
{
    double more = q ? p[token] - q[token] : p[token];
    return more > 0 ? more : 0;
}

/* The first token at which the running sum of the excess exceeds u times its sum; -1 if that is 0. */
static long draw(const double *p, const double *q, double u, long V)
{
    double sum = 0, running = 0;
    long last = -1;
    for (long token = 0; token < V; token++)
        sum += excess(p, q, token);
    for (long token = 0; token < V && !(running > u * sum); token++) {
        double more = excess(p, q, token);
        running += more;
        if (more > 0)
            last = token;
    }
    return last;
}

/* Accept each token with probability min(1, p/q); at the first rejection draw from (p - q)+, and
 * from the last p if there is none. Source: arXiv 2211.17192, Algorithm 1. */
static Emission verify(const Row *row)
{
    long accepted = 0;
    for (; accepted < row->L; accepted++) {
        int64_t token = row->drafted[accepted] + accepted * row->V;
        /* Strictly: a coin of exactly 0 must not accept what the target never says. */
        if (!(row->coins[accepted] < row->p[token] / row->q[token]))
            break;
    }
    const double *p = row->p + accepted * row->V;
    const double *q = accepted < row->L ? row->q + accepted * row->V : NULL;
    long next = draw(p, q, row->u, row->V);
    /* p exceeds q nowhere only where they differ by rounding. */
    return (Emission){accepted, next >= 0 ? next : draw(p, NULL, row->u, row->V)};
}

/* --- the protocol: reading ------------------------------------------------------------------- */

/* The request that is being answered: an error is an answer to it, and is written at once. */
static long sequence;

static bool refuse(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    printf("{\"error\": {\"sequence\": %ld, \"message\": \"", sequence);
    vprintf(format, values);
    printf("\"}}\n");
    va_end(values);
    return false;
}

/* What follows "key": in the line, NULL if there is none. No string that we are sent has quotes in
 * it, and no key stands twice but those of a tensor, which follow the tensor's own. */
static char *find(char *line, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    char *found = line ? strstr(line, quoted) : NULL;
    return found ? found + strlen(quoted) + strspn(found + strlen(quoted), " :") : NULL;
}

/* Whether the line is a message of this kind: whether that is its first key. */
static bool is(const char *line, const char *kind)
{
    line += strspn(line, "{ \"");
    return !strncmp(line, kind, strlen(kind));
}

static long integer(char *line, const char *key)
{
    char *found = find(line, key);
    return found ? strtol(found, NULL, 10) : -1;
}

/* A tensor of int64 or double, to be freed; of rank 0 where the line has none of this name. */
typedef struct {
    long rank, shape[4];
    void *data;
} Tensor;

static Tensor tensor_of(char *line, const char *key)
{
    static unsigned char digit[256];
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (unsigned i = 0; i < 64; i++)
        digit[(unsigned char)digits[i]] = (unsigned char)i;

    Tensor tensor = {0};
    char *start = find(line, key), *side = find(start, "shape"), *text = find(start, "data");
    if (!side || !text)
        return tensor;
    for (side++; tensor.rank < 4 && *side != ']'; side += strspn(side, " ,"))
        tensor.shape[tensor.rank++] = strtol(side, &side, 10);
    text++; /* the quote */
    unsigned char *out = tensor.data = malloc((size_t)(strchr(text, '"') - text) / 4 * 3 + 1);
    if (!out) {
        fprintf(stderr, "token: not enough memory\n");
        exit(1);
    }
    for (const unsigned char *in = (unsigned char *)text; *in != '"'; in += 4) {
        uint32_t bits = (uint32_t)digit[in[0]] << 18 | (uint32_t)digit[in[1]] << 12
                      | (uint32_t)digit[in[2]] << 6 | digit[in[3]];
        *out++ = (unsigned char)(bits >> 16);
        if (in[2] != '=')
            *out++ = (unsigned char)(bits >> 8);
        if (in[3] != '=')
            *out++ = (unsigned char)bits;
    }
    return tensor;
}

/* --- the protocol: checking ------------------------------------------------------------------ */

static bool has_shape(const char *name, const Tensor *tensor, long rank, const long *shape)
{
    if (tensor->rank == rank && !memcmp(tensor->shape, shape, (size_t)rank * sizeof *shape))
        return true;
    return refuse("%s has the wrong shape or is not there", name);
}

static bool are_laws(const char *name, const double *rows, long count, long V)
{
    for (long i = 0; i < count; i++, rows += V) {
        double sum = 0;
        for (long token = 0; token < V; token++) {
            if (!(rows[token] >= 0)) /* NaN is not, either */
                return refuse("%s: %g in row %ld is no probability", name, rows[token], i);
            sum += rows[token];
        }
        /* What a softmax in float32 is off by, at most: one rounding for every token. */
        if (!(fabs(sum - 1) <= (double)V * 0x1p-24))
            return refuse("%s: row %ld sums to %g, not to 1", name, i, sum);
    }
    return true;
}

static bool were_drafted(const Row *row)
{
    for (long i = 0; i < row->L; i++) {
        int64_t token = row->drafted[i];
        if (token < 0 || token >= row->V)
            return refuse("drafted token %lld is not in 0..%ld", (long long)token, row->V - 1);
        if (!(row->q[i * row->V + token] > 0))
            return refuse("drafted token %lld has probability 0", (long long)token);
    }
    return true;
}

/* --- the protocol: answering ----------------------------------------------------------------- */

/* Random bits: splitmix64, of Steele, Lea and Flood, OOPSLA 2014. */
static uint64_t state;

static double uniform(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static Tensor drawn(long rank, long B, long L)
{
    double *data = calloc((size_t)(B * L), sizeof *data);
    for (long i = 0; data && i < B * L; i++)
        data[i] = uniform();
    return (Tensor){rank, {B, L}, data};
}

static void print_column(const char *name, const long *column, long rows)
{
    printf(", \"%s\": [", name);
    for (long b = 0; b < rows; b++)
        printf(b ? ", %ld" : "%ld", column[b]);
    printf("]");
}

static void answer(char *line, bool seeded)
{
    sequence = integer(line, "sequence");
    long B = integer(line, "rows"), K = integer(line, "drafts"), L = integer(line, "length");
    long V = integer(line, "vocabulary");
    if (B < 1 || K < 1 || L < 1 || V < 1) {
        refuse("this is no request: it has no rows, drafts, length or vocabulary");
        return;
    }
    Tensor tokens = tensor_of(line, "draft_tokens");
    Tensor q = tensor_of(line, "draft_probs"), p = tensor_of(line, "target_probs");
    Tensor coins = tensor_of(line, "coins"), u = tensor_of(line, "token");
    if (seeded) {
        char *seed = find(line, "seed");
        state = seed ? strtoull(seed, NULL, 10) : 0;
        coins = drawn(2, B, L);
        u = drawn(1, B, 1);
    }
    long *accepted = calloc((size_t)B * 3, sizeof *accepted), *path = accepted + B;
    long *next = path + B;
    bool right = has_shape("draft_tokens", &tokens, 3, (long[]){B, 1, L})
              && has_shape("draft_probs", &q, 4, (long[]){B, K, L, V})
              && has_shape("target_probs", &p, 4, (long[]){B, K, L + 1, V})
              && has_shape("coins", &coins, 2, (long[]){B, L})
              && has_shape("token", &u, 1, (long[]){B})
              && are_laws("draft_probs", q.data, B * L, V)
              && are_laws("target_probs", p.data, B * (L + 1), V);
    for (long b = 0; b < B && right; b++) {
        Row row = {
            .L = L,
            .V = V,
            .drafted = (int64_t *)tokens.data + b * L,
            .q = (double *)q.data + b * L * V,
            .p = (double *)p.data + b * (L + 1) * V,
            .coins = (double *)coins.data + b * L,
            .u = ((double *)u.data)[b],
        };
        right = were_drafted(&row);
        if (right) {
            Emission emission = verify(&row);
            accepted[b] = emission.accepted;
            next[b] = emission.next;
        }
    }
    if (right) {
        printf("{\"result\": {\"sequence\": %ld", sequence);
        print_column("accepted_length", accepted, B);
        print_column("path", path, B);
        print_column("next_token", next, B);
        printf("}}\n");
    }
    free(accepted);
    Tensor *read[] = {&tokens, &q, &p, &coins, &u};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        free(read[i]->data);
}

int main(int count, char **arguments)
{
    bool seeded = count > 1 && !strcmp(arguments[1], "--seeded");
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0 && !is(line, "stop")) {
        if (is(line, "start"))
            printf("{\"declaration\": {\"protocol\": 1, \"name\": \"c-token\", "
                   "\"version\": \"1.0\", \"algorithm\": \"token\", \"tensors\": \"base64\", "
                   "\"dtype\": \"float64\"%s}}\n",
                   seeded ? ""
                          : ", \"noise\": {\"coins\": [\"uniform\", \"L\"], "
                            "\"token\": [\"uniform\"]}");
        else
            answer(line, seeded);
        fflush(stdout); /* or the answer waits in a buffer, and draftproof for it */
    }
    free(line);
    return 0;
}
