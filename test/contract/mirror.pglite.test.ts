/** The contract of the mirror, run on the embedded driver. */

import { openTestMirror } from '../support/mirror.ts'
import { describeMirror } from './mirror.contract.ts'

describeMirror('embedded', { open: openTestMirror })
