/* Shifts the wall clock of a process by an offset that another process may change at any moment.
 *
 * For LD_PRELOAD. SOAK_CLOCK names a file of eight bytes: nanoseconds, signed, in the byte order of
 * the machine. The monotonic clock and whatever waits by it are left alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *offset;

__attribute__((constructor)) static void open_offset(void)
{
    const char *path = getenv("SOAK_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset = mapped;
}

static void shift(struct timespec *time, int64_t by)
{
    int64_t at = time->tv_sec * SECOND + time->tv_nsec + by;
    time->tv_sec = at / SECOND;
    time->tv_nsec = at % SECOND;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        shift(time, *offset);
    return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return (time_t)-1;
    if (seconds)
        *seconds = now.tv_sec;
    return now.tv_sec;
}

/* Pythons for old systems wait for locks until a time of the wall clock, which the kernel's is. */
int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until)
{
    static int (*wait)(sem_t *, const struct timespec *);
    struct timespec real = *until;
    if (!wait)
        wait = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
    if (offset)
        shift(&real, -*offset);
    return wait(semaphore, &real);
}
