/** Messages of runs and sessions on embedded engines. */

import { describeSessions } from './runs-sessions.promises.ts'

describeSessions('embedded engines')
