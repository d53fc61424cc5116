/** Who runs the command: changes are noted under this name. */

import { userInfo } from 'node:os'

/** In a container the user may have a number and no name. */
export function systemUser(): string {
  try {
    return userInfo().username
  } catch {
    return `uid:${process.getuid?.() ?? 'unknown'}`
  }
}
