/** The contract of search-pg, run on the embedded mirror. */

import { openTestMirror } from '../support/mirror.ts'
import { describeSearchPg } from './search-pg.contract.ts'

describeSearchPg('the embedded mirror', { open: openTestMirror, indexed: false })
