/** search-pg on embedded engines. */

import { describeSearchPgFlow } from './search-pg.promises.ts'

describeSearchPgFlow('embedded', async () => ({}))
