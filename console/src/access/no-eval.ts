/** The content security policy forbids eval, so zod must not compile schemas. */
import { config } from 'zod';

config({ jitless: true });
