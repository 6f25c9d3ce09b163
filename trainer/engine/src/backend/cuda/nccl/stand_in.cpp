// The part of NCCL that the engine calls, between threads of one process and on the heap, for tests on machines without GPUs. A stream is a counter of the exchanges
// that are not done. Work advances when a rank asks for its state, as the engine does while it waits.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#ifndef VERSION
#define VERSION 22803
#endif

enum { SUCCESS = 0, INVALID_ARGUMENT = 4, IN_PROGRESS = 7 };

struct UniqueId {
    char bytes[128];
};

struct Config {
    size_t size;
    unsigned magic, version;
    int blocking, cga, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
};

struct Transfer {
    bool send;
    char *at;
    size_t bytes;
    int peer;
    struct Comm *comm;
    int *stream;
};

struct Comm {
    std::string id;
    int rank, size;
    // Answers of "in progress" before the next call has been carried out.
    int busy;
    std::deque<std::vector<Transfer>> pending;
};

static std::mutex lock;
static std::map<std::string, int> joined;
static std::map<std::tuple<std::string, int, int>, std::deque<std::vector<char>>> mail;
static thread_local std::vector<Transfer> group;
static thread_local bool in_group;

extern "C" {
// The failure that every rank's state is, and the rank that cannot join.
static int failure = SUCCESS, refused = -1;
// Communicators that are alive.
static int alive = 0;

void stand_in_set(int new_failure, int new_refused) {
    std::lock_guard<std::mutex> guard(lock);
    failure = new_failure, refused = new_refused;
}

int stand_in_alive() {
    std::lock_guard<std::mutex> guard(lock);
    return alive;
}

int ncclGetVersion(int *version) {
    *version = VERSION;
    return SUCCESS;
}

int ncclGetUniqueId(UniqueId *id) {
    static int number = 0;
    std::lock_guard<std::mutex> guard(lock);
    memset(id->bytes, 0, sizeof id->bytes);
    // The last bytes tell an identifier that was passed by value from one that was cut off.
    id->bytes[126] = 'e';
    id->bytes[127] = 'z';
    memcpy(id->bytes, &++number, sizeof number);
    return SUCCESS;
}

int ncclCommInitRankConfig(Comm **comm, int size, UniqueId id, int rank, Config *config) {
    std::lock_guard<std::mutex> guard(lock);
    bool known = config->size == sizeof(Config) && config->magic == 0xcafebeef && config->version == 21800 && config->blocking == 0 &&
        config->cga == INT32_MIN && config->min_ctas == INT32_MIN && config->max_ctas == INT32_MIN && !config->net_name && config->split_share == INT32_MIN;
    if (!known || id.bytes[126] != 'e' || id.bytes[127] != 'z' || rank == refused) return INVALID_ARGUMENT;
    std::string name(id.bytes, sizeof id.bytes);
    joined[name]++;
    alive++;
    *comm = new Comm{name, rank, size, 3, {}};
    return IN_PROGRESS;
}

int ncclCommGetAsyncError(Comm *comm, int *state) {
    std::lock_guard<std::mutex> guard(lock);
    if (failure != SUCCESS) {
        *state = failure;
        return SUCCESS;
    }
    while (!comm->pending.empty()) {
        auto &transfers = comm->pending.front();
        while (!transfers.empty()) {
            Transfer t = transfers.back();
            auto &box = mail[{comm->id, t.peer, comm->rank}];
            if (box.empty()) break;
            if (box.front().size() != t.bytes) {
                *state = INVALID_ARGUMENT;
                return SUCCESS;
            }
            memcpy(t.at, box.front().data(), t.bytes);
            box.pop_front();
            transfers.pop_back();
        }
        if (!transfers.empty()) break;
        comm->pending.pop_front();
    }
    bool waits = joined[comm->id] < comm->size || (comm->busy > 0 && comm->busy-- > 0);
    *state = waits ? IN_PROGRESS : SUCCESS;
    return SUCCESS;
}

int ncclGroupStart() {
    in_group = true;
    group.clear();
    return SUCCESS;
}

static int transfer(bool send, void *at, size_t bytes, int type, int peer, Comm *comm, int *stream) {
    if (!in_group || type != 1 || bytes == 0 || peer < 0 || peer >= comm->size) return INVALID_ARGUMENT;
    group.push_back({send, static_cast<char *>(at), bytes, peer, comm, stream});
    return SUCCESS;
}

int ncclSend(void *at, size_t bytes, int type, int peer, Comm *comm, int *stream) {
    return transfer(true, at, bytes, type, peer, comm, stream);
}

int ncclRecv(void *at, size_t bytes, int type, int peer, Comm *comm, int *stream) {
    return transfer(false, at, bytes, type, peer, comm, stream);
}

int ncclGroupEnd() {
    in_group = false;
    std::lock_guard<std::mutex> guard(lock);
    std::vector<Transfer> receives;
    for (auto &t : group) {
        if (t.send)
            mail[{t.comm->id, t.comm->rank, t.peer}].push_back({t.at, t.at + t.bytes});
        else
            receives.push_back(t);
    }
    if (group.empty()) return SUCCESS;
    Comm *comm = group[0].comm;
    comm->pending.push_back(receives);
    comm->busy = 2;
    group.clear();
    return IN_PROGRESS;
}

// Whether a rank has received everything: what `cuStreamQuery` says of a real stream.
int stand_in_idle(Comm *comm) {
    std::lock_guard<std::mutex> guard(lock);
    return comm->pending.empty();
}

int ncclCommAbort(Comm *comm) {
    std::lock_guard<std::mutex> guard(lock);
    alive--;
    delete comm;
    return SUCCESS;
}

const char *ncclGetErrorString(int code) {
    return code == INVALID_ARGUMENT ? "invalid argument" : code == 6 ? "remote process exited or there was a network error" : "other";
}

const char *ncclGetLastError(Comm *comm) {
    return comm ? "socket closed by peer\n" : "";
}
}
