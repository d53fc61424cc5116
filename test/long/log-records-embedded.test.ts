/** Copies of the log on the embedded engines: the platform is one process that is killed and started again. */

import { describeLogRecords } from '../flow/log-records.promises.ts'

describeLogRecords('embedded', async () => ({ env: {}, close: async () => {} }))
