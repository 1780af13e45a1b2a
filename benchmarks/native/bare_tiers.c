/* What tiered storage has to do with every byte, and nothing else: the bound of any server on this machine.
 *
 * A client process frames events into blocks and sends them over one TCP connection. The server copies each
 * block into a log frame and into memory, checksums and writes full frames durably (O_DSYNC, around the page
 * cache, into a zeroed file that is used again, two writers), acknowledges, and stores what each segment has
 * gathered by checksummed, synced appends to its chunk file (four writers, pages handed back). There is no
 * metadata, no index, no reader, no recovery, no check of what comes in, and no interpreter.
 *
 * bare_tiers DIRECTORY TOTAL_MIB SEGMENTS EVENT_BYTES BLOCK_BYTES FLUSH_BYTES STORE
 *
 * STORE 0 leaves the chunks out. As much as all segments gather for one append goes before what is measured:
 * chunk files are there then, and memory was touched. Prints one line: MB/s until the last acknowledgement,
 * and CPU ms per MB of the client, the receiving thread, the log's and the storing threads.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __SSE4_2__
#include <nmmintrin.h>
#define STEP(sum, word) _mm_crc32_u64(sum, word)
#else
#define STEP(sum, word) (((sum) ^ (word)) * 0x9e3779b97f4a7c15u) /* not a checksum, but about its price */
#endif

enum { MIB = 1 << 20, FRAMES = 12, LOG_MIB = 64, CHUNK = 16 * MIB, POOL = 768 * MIB, LOGGERS = 2, STORERS = 4 };
enum { RECEIVE = 256 << 10, WINDOW_MIN = 32 * MIB, PIECES_MAX = 256, JOBS_MAX = 4096 };

struct header { uint32_t segment, length; };

struct segment {
    uint8_t *pieces[PIECES_MAX];
    size_t gathered, due, chunk_length;
    unsigned chunk;
    int storing;
};

struct job { struct segment *segment; uint8_t *pieces[PIECES_MAX]; size_t length; uint64_t frames; };

static size_t warm_bytes, total_bytes, block_bytes, flush_bytes, piece_bytes;
static unsigned segment_count, event_bytes;
static int with_store, log_fd;
static uint8_t *frames;
static size_t frame_lengths[FRAMES], frame_used;
static uint64_t frames_filled, frames_taken, frames_durable;
static int frame_written[FRAMES];
static struct segment *segments;
static struct job *jobs;
static uint64_t jobs_made, jobs_taken;
static uint8_t **pool_free;
static size_t pool_count;
static int receiving = 1;
static pthread_t threads[LOGGERS + STORERS];
static int connection;
static uint64_t bytes_durable, bytes_stored;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t frame_filled = PTHREAD_COND_INITIALIZER, frame_free = PTHREAD_COND_INITIALIZER;
static pthread_cond_t job_made = PTHREAD_COND_INITIALIZER, durable = PTHREAD_COND_INITIALIZER;
static pthread_cond_t piece_free = PTHREAD_COND_INITIALIZER;
static volatile uint64_t checksum_sink;

static void fail(const char *what) { perror(what); exit(1); }

static double clock_seconds(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

static void *map_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    madvise(memory, size, MADV_HUGEPAGE);
    memset(memory, 1, size);
    return memory;
}

/* Three streams of the instruction, as fast libraries do it; combining them properly costs nothing that counts. */
static void checksum(const uint8_t *bytes, size_t size) {
    uint64_t one = 0, two = 0, three = 0;
    const uint64_t *words = (const uint64_t *)bytes;
    size_t count = size / 8;
    for (size_t at = 0; at + 2 < count; at += 3) {
        one = STEP(one, words[at]);
        two = STEP(two, words[at + 1]);
        three = STEP(three, words[at + 2]);
    }
    checksum_sink = one ^ two ^ three;
}

static void send_all(int fd, const uint8_t *bytes, size_t size) {
    while (size) {
        ssize_t sent = write(fd, bytes, size);
        if (sent <= 0) fail("send");
        bytes += sent;
        size -= sent;
    }
}

static void run_client(int fd) {
    size_t window = 2 * (size_t)segment_count * block_bytes;
    size_t buffers = 8 * MIB / (block_bytes + sizeof(struct header)) + 1;
    size_t stride = block_bytes + sizeof(struct header);
    uint8_t *memory = map_memory(buffers * stride), *event = malloc(event_bytes);
    uint64_t sent = 0, acknowledged = 0;
    if (window < WINDOW_MIN) window = WINDOW_MIN;
    memset(event, 2, event_bytes);
    double before = 0;
    for (uint64_t number = 0; sent < warm_bytes + total_bytes; number++) {
        if (!before && sent >= warm_bytes) before = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
        uint8_t *block = memory + number % buffers * stride;
        struct header head = {number % segment_count, 0};
        uint8_t *at = block + sizeof head;
        while (head.length + 8 + event_bytes <= block_bytes) {
            uint32_t frame[2] = {0, event_bytes};
            memcpy(at, frame, 8);
            memcpy(at + 8, event, event_bytes);
            at += 8 + event_bytes;
            head.length += 8 + event_bytes;
        }
        memcpy(block, &head, sizeof head);
        while (sent + head.length > acknowledged + window)
            if (read(fd, &acknowledged, sizeof acknowledged) != sizeof acknowledged) fail("acknowledgement");
        send_all(fd, block, sizeof head + head.length);
        sent += head.length;
    }
    shutdown(fd, SHUT_WR);
    while (acknowledged < sent)
        if (read(fd, &acknowledged, sizeof acknowledged) != sizeof acknowledged) fail("acknowledgement");
    FILE *report = fopen("client", "w");
    fprintf(report, "%f", clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - before);
    fclose(report);
    exit(0);
}

static void *write_log(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (frames_taken == frames_filled && receiving) pthread_cond_wait(&frame_filled, &lock);
        if (frames_taken == frames_filled) break;
        uint64_t number = frames_taken++;
        pthread_mutex_unlock(&lock);
        uint8_t *frame = frames + number % FRAMES * MIB;
        checksum(frame, MIB);
        if (pwrite(log_fd, frame, MIB, (off_t)(number % LOG_MIB) * MIB) != MIB) fail("log");
        pthread_mutex_lock(&lock);
        frame_written[number % FRAMES] = 1;
        int moved = 0;
        while (frames_durable < frames_filled && frame_written[frames_durable % FRAMES]) {
            frame_written[frames_durable % FRAMES] = 0;
            bytes_durable += frame_lengths[frames_durable % FRAMES];
            frames_durable++;
            moved = 1;
        }
        if (moved) {
            send_all(connection, (uint8_t *)&bytes_durable, sizeof bytes_durable);
            pthread_cond_signal(&frame_free);
            pthread_cond_broadcast(&durable);
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void append_chunk(struct job *job) {
    struct segment *segment = job->segment;
    struct iovec parts[PIECES_MAX];
    char name[64];
    int count = 0;
    if (segment->chunk_length >= CHUNK) {
        segment->chunk_length = 0;
        segment->chunk++;
    }
    for (size_t left = job->length; left; count++) {
        size_t size = left < piece_bytes ? left : piece_bytes;
        checksum(job->pieces[count], size);
        parts[count] = (struct iovec){job->pieces[count], size};
        left -= size;
    }
    snprintf(name, sizeof name, "chunk-%td-%u", segment - segments, segment->chunk);
    int fd = open(name, O_WRONLY | O_CREAT, 0644);
    if (fd < 0) fail("chunk");
    if (pwritev(fd, parts, count, segment->chunk_length) != (ssize_t)job->length || fdatasync(fd)) fail("chunk");
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    segment->chunk_length += job->length;
}

static void *store(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (jobs_taken == jobs_made && receiving) pthread_cond_wait(&job_made, &lock);
        if (jobs_taken == jobs_made) break;
        struct job job = jobs[jobs_taken++ % JOBS_MAX];
        while (frames_durable < job.frames) pthread_cond_wait(&durable, &lock);
        while (job.segment->storing) pthread_cond_wait(&durable, &lock);
        job.segment->storing = 1;
        pthread_mutex_unlock(&lock);
        append_chunk(&job);
        pthread_mutex_lock(&lock);
        job.segment->storing = 0;
        bytes_stored += job.length;
        for (size_t at = 0; at * piece_bytes < job.length; at++) pool_free[pool_count++] = job.pieces[at];
        pthread_cond_broadcast(&durable);
        pthread_cond_signal(&piece_free);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void give_to_storing(struct segment *segment) {
    if (!segment->gathered) return;
    pthread_mutex_lock(&lock);
    struct job *job = &jobs[jobs_made % JOBS_MAX];
    job->segment = segment;
    job->length = segment->gathered;
    job->frames = frames_filled + (frame_used > 0); /* so many must be durable before these bytes are */
    memcpy(job->pieces, segment->pieces, sizeof job->pieces);
    jobs_made++;
    pthread_cond_signal(&job_made);
    pthread_mutex_unlock(&lock);
    segment->gathered = 0;
    segment->due = flush_bytes;
}

static void send_frame(void) {
    if (!frame_used) return;
    pthread_mutex_lock(&lock);
    frame_lengths[frames_filled % FRAMES] = frame_used;
    frames_filled++;
    frame_used = 0;
    pthread_cond_signal(&frame_filled);
    while (frames_filled - frames_durable >= FRAMES) pthread_cond_wait(&frame_free, &lock);
    pthread_mutex_unlock(&lock);
}

static void take_bytes(struct segment *segment, const uint8_t *bytes, size_t size) {
    while (size) {
        size_t part = MIB - frame_used < size ? MIB - frame_used : size;
        size_t offset = segment->gathered % piece_bytes;
        if (with_store) {
            if (piece_bytes - offset < part) part = piece_bytes - offset;
            if (!offset) {
                pthread_mutex_lock(&lock);
                while (!pool_count) pthread_cond_wait(&piece_free, &lock);
                segment->pieces[segment->gathered / piece_bytes] = pool_free[--pool_count];
                pthread_mutex_unlock(&lock);
            }
            memcpy(segment->pieces[segment->gathered / piece_bytes] + offset, bytes, part);
            segment->gathered += part;
        }
        memcpy(frames + frames_filled % FRAMES * MIB + frame_used, bytes, part);
        frame_used += part;
        bytes += part;
        size -= part;
        if (with_store && segment->gathered >= segment->due && segment->gathered % piece_bytes == 0)
            give_to_storing(segment);
        if (frame_used == MIB) send_frame();
    }
}

/* Time and CPU so far: of the clock, of the receiving thread, of the log's and of the storing threads. */
struct mark { double at, cpu[3]; };

static struct mark take_mark(void) {
    struct mark mark = {clock_seconds(CLOCK_MONOTONIC), {clock_seconds(CLOCK_THREAD_CPUTIME_ID), 0, 0}};
    for (int at = 0; at < LOGGERS + STORERS; at++) {
        clockid_t clock;
        if (pthread_getcpuclockid(threads[at], &clock)) fail("clock");
        mark.cpu[at < LOGGERS ? 1 : 2] += clock_seconds(clock);
    }
    return mark;
}

static struct mark receive_all(int fd) {
    uint8_t *buffer = map_memory(RECEIVE);
    struct header head = {0, 0};
    size_t head_used = 0, left = 0, received = 0;
    struct mark mark = {0, {0, 0, 0}};
    ssize_t got;
    while ((got = read(fd, buffer, RECEIVE)) > 0) {
        if (!mark.at && received >= warm_bytes) mark = take_mark();
        received += got;
        for (uint8_t *at = buffer, *end = buffer + got; at < end;) {
            if (!left) {
                ((uint8_t *)&head)[head_used++] = *at++;
                if (head_used == sizeof head) {
                    head_used = 0;
                    left = head.length;
                }
                continue;
            }
            size_t part = (size_t)(end - at) < left ? (size_t)(end - at) : left;
            take_bytes(&segments[head.segment], at, part);
            at += part;
            left -= part;
        }
    }
    send_frame();
    for (unsigned at = 0; at < segment_count; at++) give_to_storing(&segments[at]);
    return mark;
}

static void prepare(void) {
    size_t pool_bytes = 2 * warm_bytes + 64 * MIB < POOL ? 2 * warm_bytes + 64 * MIB : POOL;
    uint8_t *pool = map_memory(pool_bytes), *zeros = calloc(1, MIB);
    frames = map_memory(FRAMES * MIB);
    jobs = calloc(JOBS_MAX, sizeof *jobs);
    segments = calloc(segment_count, sizeof *segments);
    pool_free = calloc(pool_bytes / piece_bytes, sizeof *pool_free);
    while (pool_count < pool_bytes / piece_bytes) {
        pool_free[pool_count] = pool + pool_count * piece_bytes;
        pool_count++;
    }
    srand(7);
    for (unsigned at = 0; at < segment_count; at++) segments[at].due = rand() % flush_bytes + 1; /* not all at once */
    log_fd = open("log", O_RDWR | O_CREAT, 0644);
    for (int at = 0; at < LOG_MIB; at++)
        if (pwrite(log_fd, zeros, MIB, (off_t)at * MIB) != MIB) fail("log");
    fsync(log_fd);
    close(log_fd);
    log_fd = open("log", O_RDWR | O_DIRECT | O_DSYNC);
    if (log_fd < 0) log_fd = open("log", O_RDWR | O_DSYNC); /* some file systems cannot */
    if (log_fd < 0) fail("log");
}

int main(int count, char **words) {
    if (count != 8 || chdir(words[1])) fail("usage: see the source");
    total_bytes = strtoull(words[2], NULL, 10) * MIB;
    segment_count = atoi(words[3]);
    event_bytes = atoi(words[4]);
    block_bytes = atoi(words[5]);
    flush_bytes = atoi(words[6]);
    with_store = atoi(words[7]);
    warm_bytes = segment_count * flush_bytes;
    piece_bytes = flush_bytes / 8 > MIB ? MIB : flush_bytes / 8 / 4096 * 4096;
    if (piece_bytes < 4096 || flush_bytes / piece_bytes + 1 >= PIECES_MAX) fail("FLUSH_BYTES");
    prepare();
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (bind(listener, (void *)&address, size) || listen(listener, 1)) fail("listen");
    getsockname(listener, (void *)&address, &size);
    pid_t client = fork();
    if (!client) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (void *)&address, sizeof address)) fail("connect");
        run_client(fd);
    }
    connection = accept(listener, NULL, NULL);
    for (int at = 0; at < LOGGERS + STORERS; at++)
        pthread_create(&threads[at], NULL, at < LOGGERS ? write_log : store, NULL);
    struct mark from = receive_all(connection);
    pthread_mutex_lock(&lock);
    while (frames_durable < frames_filled) pthread_cond_wait(&durable, &lock);
    struct mark to = take_mark();
    receiving = 0;
    pthread_cond_broadcast(&frame_filled);
    pthread_cond_broadcast(&job_made);
    pthread_mutex_unlock(&lock);
    for (int at = 0; at < LOGGERS + STORERS; at++) pthread_join(threads[at], NULL);
    int status;
    waitpid(client, &status, 0);
    if (status || (with_store && bytes_stored != bytes_durable)) fail("bytes are missing");
    double client_cpu = 0, mb = (bytes_durable - warm_bytes) / 1e6;
    FILE *report = fopen("client", "r");
    if (!report || fscanf(report, "%lf", &client_cpu) != 1) fail("client");
    printf("%.0f %.3f", mb / (to.at - from.at), client_cpu * 1e3 / mb);
    for (int at = 0; at < 3; at++) printf(" %.3f", (to.cpu[at] - from.cpu[at]) * 1e3 / mb);
    printf("\n");
    return 0;
}
