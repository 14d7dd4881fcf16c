#pragma once

namespace bytetape::examples {

/// From here on the first SIGINT (Ctrl-C) or SIGTERM is noted, for training to stop behind its step, and a second one
/// ends the process. A signal that is ignored, as SIGINT is in a script's background, stays so.
void catch_interrupts();
/// From here on the first one ends the process: training is over.
void release_interrupts();
/// The signal that was noted; 0: none.
int interrupted();

}  // namespace bytetape::examples
