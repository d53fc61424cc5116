/** Bounds of the courier's calls. */

/** Calls in flight to a target with `ordering: agent`; with `ordering: target` there is one. */
export const callsPerTargetMax = 8
