/** The page's policy allows no code made from text, so the schemas of the rules must not even try. */
import { config } from 'zod';

config({ jitless: true });
