/* common/setup/signals.c - see signals.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/signals.h"

#include <stddef.h>

#include "common/setup/config.h"

void
signals_take(sigset_t *mask)
{
    static const int all[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};
    struct sigaction hangup;

    /* None of these can fail: the numbers are valid. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)sigemptyset(mask);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        (void)sigaddset(mask, all[i]);
    (void)sigaction(SIGHUP, NULL, &hangup);
    /* One that is blocked would come though it is ignored. */
    if (hangup.sa_handler != SIG_IGN)
        (void)sigaddset(mask, SIGHUP);
}

int
signals_exit_status(int signo)
{
    return signo == SIGHUP ? CONFIG_EXIT_SYSTEM : CONFIG_EXIT_OK;
}
