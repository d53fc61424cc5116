/** Webhooks on embedded engines. */

import { describeWebhooks } from './webhooks.promises.ts'

describeWebhooks('embedded', async () => ({}))
